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


class CacheHarness:
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
def harness(tmp_path, monkeypatch):
    """Return models with room for ten bytes."""
    made = CacheHarness(tmp_path / "a" / "models", 10)
    monkeypatch.setattr(_models, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def test_a_model_is_requested_once(harness):
    """For all fixtures that name it; again after growing delays."""
    for now, asked in ((0.0, 1), (0.0, 1), (9.9, 1), (10.0, 2), (29.9, 2), (30.0, 3), (69.9, 3), (70.0, 4)):
        harness.now = now
        assert not harness.models.has_models(fixtures([b"one"], [b"one"]))
        assert harness.asked == [ModelRequest(hash=digest_of(b"one"))] * asked


def test_an_added_model_is_stored(harness):
    """In one file named by its hash, with its parts in order."""
    content = b"0123456789"
    assert not harness.models.has_models(fixtures([content]))
    harness.models.add(file(content))
    assert harness.models.has_models(fixtures([content]))
    assert (harness.folder / f"{digest_of(content)}.safetensors").read_bytes() == content
    assert len(list(harness.folder.iterdir())) == len(harness.asked) == 1


def test_a_fixture_waits_for_all_of_its_models(harness):
    """Each is requested separately."""
    both = fixtures([b"one"], [b"two"])
    assert not harness.models.has_models(both)
    assert {wanted.hash for wanted in harness.asked} == {digest_of(b"one"), digest_of(b"two")}
    harness.models.add(file(b"one"))
    assert not harness.models.has_models(both)
    harness.models.add(file(b"two"))
    assert harness.models.has_models(both)
    assert len(harness.asked) == 2


@pytest.mark.parametrize("message", [ResultsAck(report=1), Fixtures(fixtures=()), fixtures([])], ids=repr)
def test_other_messages_wait_for_no_model(harness, message):
    """Only fixtures name models."""
    assert harness.models.has_models(message)
    assert harness.asked == []


def test_a_damaged_file_is_rejected(harness, caplog):
    """It is requested again after the usual delay."""
    harness.models.has_models(fixtures([b"one"]))
    harness.models.add(file(b"0ne", hash=digest_of(b"one")))
    assert not harness.models.has_models(fixtures([b"one"]))
    assert harness.kept() == set()
    assert "arrived damaged" in caplog.text
    harness.now = 10.0
    harness.fetch(b"one")
    assert len(harness.asked) == 2
    assert harness.kept() == {b"one"}


@pytest.mark.parametrize("hash", ["", "../../up", digest_of(b"one")])
def test_a_file_that_was_not_requested_is_ignored(harness, hash):
    """Whatever its name."""
    harness.models.add(file(b"one", hash=hash))
    assert harness.kept() == set()
    assert not harness.models.has_models(fixtures([b"one"]))


def test_a_file_that_arrives_twice_is_written_once(harness):
    """It may have been requested twice."""
    harness.fetch(b"one")
    (harness.folder / f"{digest_of(b'one')}.safetensors").unlink()
    harness.models.add(file(b"one"))
    assert harness.kept() == set()


def test_a_model_that_the_run_does_not_have_delays_no_fixture(harness):
    """The sampler finds no file and raises."""
    harness.models.has_models(fixtures([b"one"]))
    harness.models.add(ModelFile(hash=digest_of(b"one"), parts={}))
    assert harness.models.has_models(fixtures([b"one"]))
    assert harness.kept() == set()


def test_the_least_recently_named_model_is_removed(harness):
    """Whenever it was added."""
    for content in (b"aaaa", b"bbbb"):
        harness.fetch(content)
    assert harness.models.has_models(fixtures([b"aaaa"]))
    harness.now = 600.0
    harness.fetch(b"cccc")
    assert harness.kept() == {b"aaaa", b"cccc"}
    assert not harness.models.has_models(fixtures([b"bbbb"]))


def test_models_in_use_stay(harness):
    """Whatever the limit; the models of one fixture must not remove each other."""
    named = (b"aaaaaa", b"bbbbbb", b"cccccc")
    harness.fetch(*named)
    assert harness.models.has_models(fixtures(named))
    harness.now = 599.0
    harness.fetch(b"dddddd")
    assert harness.kept() == {*named, b"dddddd"}
    assert harness.models.has_models(fixtures([b"bbbbbb"]))
    harness.now = 600.0
    harness.fetch(b"eeeeee")
    assert harness.kept() == {b"bbbbbb", b"dddddd", b"eeeeee"}


def test_models_of_earlier_sessions_are_used(harness):
    """They count for the size limit."""
    for content in (b"aaaa", b"bbbb"):
        harness.fetch(content)
    again = CacheHarness(harness.folder, 10)
    assert again.models.has_models(fixtures([b"aaaa"]))
    assert again.asked == []
    again.fetch(b"cccc")
    assert again.kept() == {b"aaaa", b"cccc"}


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_damaged_models_of_earlier_sessions_are_fetched_again(harness, caplog, damage):
    """When they are needed; a join that was killed may have left them."""
    for content in (b"aaaa", b"bbbb"):
        harness.fetch(content)
    path = harness.folder / f"{digest_of(b'aaaa')}.safetensors"
    path.write_bytes(b"aa")
    again = CacheHarness(harness.folder, 10)
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


def test_partial_files_are_removed(harness):
    """They would stay for ever otherwise."""
    (harness.folder / f".{digest_of(b'aaaa')}.safetensors.1.partial").write_bytes(b"aa")
    assert CacheHarness(harness.folder, 10).kept() == set()
