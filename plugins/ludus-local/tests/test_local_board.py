"""Weights on a board are never torn, and every sampler finds the newest."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from ludus.errors import LinkError, WireError
from ludus_local.board import BoardReader, WeightStore
from ludus_local.memory import ArraySpec, SharedFolder


def weights(value):
    """Return weights that all hold one value."""
    return {"layer.weight": np.full((300, 40), value, np.float32), "steps": np.full((), value, np.int64)}


@pytest.fixture
def folder(tmp_path):
    """Return a private folder as the learner sees it."""
    path = tmp_path / "shared"
    path.mkdir(mode=0o700)
    return SharedFolder(path, "learner-main")


@pytest.fixture
def board(folder):
    """Return a board with nothing on it."""
    return WeightStore.of(folder, weights(0))


@pytest.fixture
def reader(folder, board):
    """Return a sampler's view of it."""
    return BoardReader(SharedFolder(folder.path, "sampler-0"), "learner-main", board.file.name, board.layout.specs)


class Policy:
    """Copies weights; `meanwhile` happens between the first array and the second."""

    def __init__(self, meanwhile=lambda: None):
        self.taken, self.meanwhile = [], meanwhile

    def load(self, weights, version):
        first = float(weights["layer.weight"].mean())
        self.meanwhile()
        self.taken.append((first, int(weights["steps"]), version))


def test_the_newest_weights_are_found(board, reader):
    """With their version, in either copy."""
    policy = Policy()
    for version in range(3, 8):
        board.publish(weights(version), version)
        assert reader.version == version
        reader.load(policy.load)
    assert policy.taken == [(version, version, version) for version in range(3, 8)]


def test_an_empty_board_has_no_version(reader):
    """Nothing can be loaded from it."""
    assert reader.version == -1
    with pytest.raises(LinkError, match="or there are none"):
        reader.load(Policy().load)


def test_one_publication_does_not_disturb_a_reader(board, reader):
    """It goes to the other copy."""
    board.publish(weights(1), 1)
    policy = Policy(lambda: board.publish(weights(reader.version + 1), reader.version + 1))
    reader.load(policy.load)
    assert policy.taken == [(1, 1, 1)]


def test_torn_weights_are_loaded_again(board, reader):
    """Two publications during one copy overwrite what is being copied."""
    board.publish(weights(1), 1)

    def twice():
        if reader.version < 3:
            for version in (2, 3):
                board.publish(weights(version), version)

    policy = Policy(twice)
    reader.load(policy.load)
    assert policy.taken == [(1, 3, 1), (3, 3, 3)]


def test_weights_are_torn_as_soon_as_the_learner_begins_to_overwrite_them(board, reader):
    """Not only once it is done."""
    board.publish(weights(1), 1)

    def once_and_a_half():
        if reader.version < 2:
            board.publish(weights(2), 2)
            with pytest.raises(KeyError):  # killed in the middle, as far as the reader can tell
                board.publish({"layer.weight": weights(3)["layer.weight"]}, 3)

    policy = Policy(once_and_a_half)
    reader.load(policy.load)
    assert policy.taken[-1] == (2, 2, 2)


def test_a_copy_that_is_being_written_is_not_read(board, reader):
    """The other one is the newest until it is whole."""
    board.publish(weights(1), 1)
    seen = []

    class Watched(dict):
        def __getitem__(self, name):
            seen.append(reader.version)
            return super().__getitem__(name)

    board.publish(Watched(weights(2)), 2)
    assert seen == [1, 1]
    assert reader.version == 2


def test_a_learner_that_was_killed_while_it_wrote_leaves_the_older_weights(board, reader):
    """What it had shown before stays whole."""
    board.publish(weights(1), 1)
    board.publish(weights(2), 2)
    with pytest.raises(KeyError):
        board.publish({"layer.weight": weights(3)["layer.weight"]}, 3)
    policy = Policy()
    reader.load(policy.load)
    assert policy.taken == [(2, 2, 2)]


@pytest.mark.parametrize("change", [{"name": "learner-main.1.9"}, {"specs": {"w": ArraySpec(dtype="<f4", shape=(3,))}}])
def test_a_board_that_is_not_there_is_refused(folder, board, change):
    """Neither a missing one nor one of another layout."""
    what = {"name": board.file.name, "specs": board.layout.specs} | change
    with pytest.raises(WireError):
        BoardReader(folder, "learner-main", **what)


def test_between_processes_no_copy_is_ever_torn(folder, board, reader):
    """However fast the learner is."""
    code = (
        "import sys, numpy as np; from pathlib import Path; from ludus_local.board import *\n"
        "from ludus_local.memory import ArraySpec as A, SharedFolder\n"
        "specs = {'layer.weight': A(dtype='<f4', shape=(300, 40)), 'steps': A(dtype='<i8', shape=())}\n"
        f"folder = SharedFolder(Path({str(folder.path)!r}), 's')\n"
        f"reader = BoardReader(folder, 'learner-main', {board.file.name!r}, specs)\n"
        "last, seen, policy = 0, 0, {}\n"
        "def take(weights, version):\n"
        "    policy.update({name: array.copy() for name, array in weights.items()}, version=version)\n"
        "while seen < 2000 or last < 1000:\n"
        "    reader.load(take)\n"
        "    last, seen = policy['version'], seen + 1\n"
        "    assert (policy['layer.weight'] == last).all() and policy['steps'] == last\n"
    )
    board.publish(weights(0), 0)
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        version = 0
        while process.poll() is None:
            version += 1
            board.publish(weights(version), version)
        assert process.returncode == 0
