"""Frozen models are fetched once, checked by their hash, and kept within a size limit."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from ludus._messaging.messages import Fixtures, ResultsAck
from ludus.records import Fixture
from ludus_hosts import model_cache as _models
from ludus_hosts.model_cache import ModelCache
from ludus_hosts.wire import ModelFile, ModelRequest


def digest_of(data):
    """Return the hash of bytes."""
    return hashlib.sha256(data).hexdigest()


def fixtures(*contents):
    """Return fixtures, each with models of such contents."""
    return Fixtures(
        fixtures=tuple(
            Fixture(
                id=number,
                kind="train",
                player="main",
                participants=("main", "old"),
                seed=7,
                matches=4,
                reason="test",
                models={f"old:{place}": digest_of(content) for place, content in enumerate(named)},
            )
            for number, named in enumerate(contents)
        )
    )


def file(content, *, size=3, hash=""):
    """Return a model's file as it comes."""
    data = np.frombuffer(content, np.uint8)
    parts = {f"{start:012d}": data[start : start + size] for start in range(0, len(content), size)}
    return ModelFile(hash=hash or digest_of(content), parts=dict(sorted(parts.items(), reverse=True)))


class Desk:
    """A model cache with a clock, and its requests."""

    def __init__(self, folder, budget):
        self.now, self.asked, self.folder = 0.0, [], folder
        self.models = ModelCache(folder, budget, self.asked.append)

    def kept(self):
        return {path.read_bytes() for path in self.folder.iterdir()}

    def fetch(self, *contents):
        """Name contents together and let those come that are missing."""
        self.models.has_models(fixtures(contents))
        for content in contents:
            self.models.add(file(content))


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Return models with room for ten bytes."""
    made = Desk(tmp_path / "a" / "models", 10)
    monkeypatch.setattr(_models, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def test_a_model_is_requested_once(desk):
    """For all fixtures that name it; again after growing delays."""
    for now, asked in ((0.0, 1), (0.0, 1), (9.9, 1), (10.0, 2), (29.9, 2), (30.0, 3), (69.9, 3), (70.0, 4)):
        desk.now = now
        assert not desk.models.has_models(fixtures([b"one"], [b"one"]))
        assert desk.asked == [ModelRequest(hash=digest_of(b"one"))] * asked


def test_an_added_model_is_stored(desk):
    """In one file named by its hash, with its parts in order."""
    content = b"0123456789"
    assert not desk.models.has_models(fixtures([content]))
    desk.models.add(file(content))
    assert desk.models.has_models(fixtures([content]))
    assert (desk.folder / f"{digest_of(content)}.safetensors").read_bytes() == content
    assert len(list(desk.folder.iterdir())) == len(desk.asked) == 1


def test_a_fixture_waits_for_all_of_its_models(desk):
    """Each is requested separately."""
    both = fixtures([b"one"], [b"two"])
    assert not desk.models.has_models(both)
    assert {wanted.hash for wanted in desk.asked} == {digest_of(b"one"), digest_of(b"two")}
    desk.models.add(file(b"one"))
    assert not desk.models.has_models(both)
    desk.models.add(file(b"two"))
    assert desk.models.has_models(both)
    assert len(desk.asked) == 2


@pytest.mark.parametrize("message", [ResultsAck(report=1), Fixtures(fixtures=()), fixtures([])], ids=repr)
def test_other_messages_wait_for_no_model(desk, message):
    """Only fixtures name models."""
    assert desk.models.has_models(message)
    assert desk.asked == []


def test_a_damaged_file_is_rejected(desk, caplog):
    """It is requested again after the usual delay."""
    desk.models.has_models(fixtures([b"one"]))
    desk.models.add(file(b"0ne", hash=digest_of(b"one")))
    assert not desk.models.has_models(fixtures([b"one"]))
    assert desk.kept() == set()
    assert "arrived damaged" in caplog.text
    desk.now = 10.0
    desk.fetch(b"one")
    assert len(desk.asked) == 2
    assert desk.kept() == {b"one"}


@pytest.mark.parametrize("hash", ["", "../../up", digest_of(b"one")])
def test_a_file_that_was_not_requested_is_ignored(desk, hash):
    """Whatever its name."""
    desk.models.add(file(b"one", hash=hash))
    assert desk.kept() == set()
    assert not desk.models.has_models(fixtures([b"one"]))


def test_a_file_that_arrives_twice_is_written_once(desk):
    """It may have been requested twice."""
    desk.fetch(b"one")
    (desk.folder / f"{digest_of(b'one')}.safetensors").unlink()
    desk.models.add(file(b"one"))
    assert desk.kept() == set()


def test_a_model_that_the_run_does_not_have_delays_no_fixture(desk):
    """The sampler finds no file and raises."""
    desk.models.has_models(fixtures([b"one"]))
    desk.models.add(ModelFile(hash=digest_of(b"one"), parts={}))
    assert desk.models.has_models(fixtures([b"one"]))
    assert desk.kept() == set()


def test_the_least_recently_named_model_is_removed(desk):
    """Whenever it was added."""
    for content in (b"aaaa", b"bbbb"):
        desk.fetch(content)
    assert desk.models.has_models(fixtures([b"aaaa"]))
    desk.now = 600.0
    desk.fetch(b"cccc")
    assert desk.kept() == {b"aaaa", b"cccc"}
    assert not desk.models.has_models(fixtures([b"bbbb"]))


def test_models_in_use_stay(desk):
    """Whatever the limit; the models of one fixture must not remove each other."""
    named = (b"aaaaaa", b"bbbbbb", b"cccccc")
    desk.fetch(*named)
    assert desk.models.has_models(fixtures(named))
    desk.now = 599.0
    desk.fetch(b"dddddd")
    assert desk.kept() == {*named, b"dddddd"}
    assert desk.models.has_models(fixtures([b"bbbbbb"]))
    desk.now = 600.0
    desk.fetch(b"eeeeee")
    assert desk.kept() == {b"bbbbbb", b"dddddd", b"eeeeee"}


def test_models_of_earlier_sessions_are_used(desk):
    """They count for the size limit."""
    for content in (b"aaaa", b"bbbb"):
        desk.fetch(content)
    again = Desk(desk.folder, 10)
    assert again.models.has_models(fixtures([b"aaaa"]))
    assert again.asked == []
    again.fetch(b"cccc")
    assert again.kept() == {b"aaaa", b"cccc"}


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_damaged_models_of_earlier_sessions_are_fetched_again(desk, caplog, damage):
    """When they are needed; a join that was killed may have left them."""
    for content in (b"aaaa", b"bbbb"):
        desk.fetch(content)
    path = desk.folder / f"{digest_of(b'aaaa')}.safetensors"
    path.write_bytes(b"aa")
    again = Desk(desk.folder, 10)
    if damage == "gone":
        path.unlink()
    assert again.models.has_models(fixtures([b"bbbb"]))
    assert again.asked == []
    assert not again.models.has_models(fixtures([b"aaaa"]))
    assert again.asked == [ModelRequest(hash=digest_of(b"aaaa"))]
    assert f"{path} is damaged" in caplog.text
    again.models.add(file(b"aaaa"))
    assert again.models.has_models(fixtures([b"aaaa"]))
    assert again.kept() == {b"aaaa", b"bbbb"}


def test_partial_files_are_removed(desk):
    """They would stay for ever otherwise."""
    (desk.folder / f".{digest_of(b'aaaa')}.safetensors.1.partial").write_bytes(b"aa")
    assert Desk(desk.folder, 10).kept() == set()
