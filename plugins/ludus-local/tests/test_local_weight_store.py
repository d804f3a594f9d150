"""Samplers load the newest weights of a weight store, never torn ones."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from ludus.errors import LinkError, WireError
from ludus_local.memory import ArraySpec, SharedFolder
from ludus_local.weight_store import WeightStore, WeightStoreReader


def weights(value):
    """Return weights that all have one value."""
    return {"layer.weight": np.full((300, 40), value, np.float32), "steps": np.full((), value, np.int64)}


@pytest.fixture
def folder(tmp_path):
    """Return a private folder as the learner uses it."""
    path = tmp_path / "shared"
    path.mkdir(mode=0o700)
    return SharedFolder(path, "learner-main")


@pytest.fixture
def store(folder):
    """Return an empty weight store."""
    return WeightStore.create(folder, weights(0))


@pytest.fixture
def reader(folder, store):
    """Return a sampler's reader of the store."""
    return WeightStoreReader(
        SharedFolder(folder.path, "sampler-0"), "learner-main", store.file.name, store.layout.specs
    )


class Policy:
    """Copies weights; calls `meanwhile` between the first array and the second."""

    def __init__(self, meanwhile=lambda: None):
        self.taken, self.meanwhile = [], meanwhile

    def load(self, weights, version):
        first = float(weights["layer.weight"].mean())
        self.meanwhile()
        self.taken.append((first, int(weights["steps"]), version))


def test_the_newest_weights_are_loaded(store, reader):
    """With their version, from either copy."""
    policy = Policy()
    for version in range(3, 8):
        store.publish(weights(version), version)
        assert reader.version == version
        reader.load(policy.load)
    assert policy.taken == [(version, version, version) for version in range(3, 8)]


def test_an_empty_store_has_no_version(reader):
    """Loading raises."""
    assert reader.version == -1
    with pytest.raises(LinkError, match="or there are none"):
        reader.load(Policy().load)


def test_one_publication_does_not_disturb_a_reader(store, reader):
    """It overwrites the other copy."""
    store.publish(weights(1), 1)
    policy = Policy(lambda: store.publish(weights(reader.version + 1), reader.version + 1))
    reader.load(policy.load)
    assert policy.taken == [(1, 1, 1)]


def test_torn_weights_are_loaded_again(store, reader):
    """Two publications overwrite the copy that is being loaded."""
    store.publish(weights(1), 1)

    def twice():
        if reader.version < 3:
            for version in (2, 3):
                store.publish(weights(version), version)

    policy = Policy(twice)
    reader.load(policy.load)
    assert policy.taken == [(1, 3, 1), (3, 3, 3)]


def test_weights_are_torn_as_soon_as_the_learner_begins_to_overwrite_them(store, reader):
    """Not only when it has finished."""
    store.publish(weights(1), 1)

    def once_and_a_half():
        if reader.version < 2:
            store.publish(weights(2), 2)
            with pytest.raises(KeyError):  # the writer seems killed in the middle of a write
                store.publish({"layer.weight": weights(3)["layer.weight"]}, 3)

    policy = Policy(once_and_a_half)
    reader.load(policy.load)
    assert policy.taken[-1] == (2, 2, 2)


def test_a_copy_that_is_being_written_is_not_read(store, reader):
    """The other one is the newest until then."""
    store.publish(weights(1), 1)
    observed = []

    class Watched(dict):
        def __getitem__(self, name):
            observed.append(reader.version)
            return super().__getitem__(name)

    store.publish(Watched(weights(2)), 2)
    assert observed == [1, 1]
    assert reader.version == 2


def test_a_learner_that_was_killed_while_it_wrote_leaves_the_older_weights(store, reader):
    """They are complete."""
    store.publish(weights(1), 1)
    store.publish(weights(2), 2)
    with pytest.raises(KeyError):
        store.publish({"layer.weight": weights(3)["layer.weight"]}, 3)
    policy = Policy()
    reader.load(policy.load)
    assert policy.taken == [(2, 2, 2)]


@pytest.mark.parametrize("change", [{"name": "learner-main.1.9"}, {"specs": {"w": ArraySpec(dtype="<f4", shape=(3,))}}])
def test_an_unknown_store_is_rejected(folder, store, change):
    """A missing file, or one of another layout."""
    what = {"name": store.file.name, "specs": store.layout.specs} | change
    with pytest.raises(WireError):
        WeightStoreReader(folder, "learner-main", **what)


def test_weights_are_never_torn_between_processes(folder, store, reader):
    """However fast the learner publishes."""
    code = (
        "import sys, numpy as np; from pathlib import Path; from ludus_local.weight_store import *\n"
        "from ludus_local.memory import ArraySpec as A, SharedFolder\n"
        "specs = {'layer.weight': A(dtype='<f4', shape=(300, 40)), 'steps': A(dtype='<i8', shape=())}\n"
        f"folder = SharedFolder(Path({str(folder.path)!r}), 's')\n"
        f"reader = WeightStoreReader(folder, 'learner-main', {store.file.name!r}, specs)\n"
        "last, observed, policy = 0, 0, {}\n"
        "def copy(weights, version):\n"
        "    policy.update({name: array.copy() for name, array in weights.items()}, version=version)\n"
        "while observed < 2000 or last < 1000:\n"
        "    reader.load(copy)\n"
        "    last, observed = policy['version'], observed + 1\n"
        "    assert (policy['layer.weight'] == last).all() and policy['steps'] == last\n"
    )
    store.publish(weights(0), 0)
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        version = 0
        while process.poll() is None:
            version += 1
            store.publish(weights(version), version)
        assert process.returncode == 0
