"""The evaluation cache: what it answers, what it asks, and when it steps aside."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus import _evaluation_cache as module
from ludus._build import make_inference
from ludus._evaluation_cache import EvaluationCache, Evaluations
from ludus.inference import Eager, Outputs, Span
from ludus.network import NetworkRequest, get_weights
from ludus.testing import check_inference
from ludus.testing._tiny_network import TinyNetwork

LARGE = 10**9  # parameters: whatever is saved is worth it


class Sum:
    """Answers with sums of rows, plus what was loaded into their slot, and counts the rows of every call."""

    def __init__(self):
        self.rows = []
        self.loaded = {}

    def load(self, weights, *, slot=0):
        """Add this number from now on."""
        self.loaded[slot] = weights["bias"]

    def drop(self, slot):
        """Forget it."""
        del self.loaded[slot]

    def run(self, observation, *, privileged, state, spans=()):
        """Sum up."""
        board = observation["board"]
        self.rows.append(len(board))
        total = board.reshape(len(board), -1).sum(axis=1, dtype=np.float32)[:, None]
        for slot, start, stop in spans or [Span(0, 0, len(board))]:
            total[start:stop] += self.loaded.get(slot, 0)
        heads = {"policy": np.concatenate([total, -total], axis=1)}
        if privileged:
            heads["value"] = total + privileged["hidden"][:, None]
        return Outputs(heads, {})


def ask(inference, *numbers, spans=(), hidden=None):
    """Return what boards of one number each are answered."""
    board = np.array(numbers, np.int8).reshape(-1, 1)
    privileged = {} if hidden is None else {"hidden": np.array(hidden, np.float32)}
    return inference.run({"board": board}, privileged=privileged, state={}, spans=spans).heads


def cache(parameters=LARGE):
    """Return a cache before a `Sum`."""
    return EvaluationCache(Sum(), parameters)


def test_nobody_is_asked_twice_about_the_same():
    """Within a call and in later ones."""
    cached = cache()
    assert ask(cached, 1, 2, 1, 1)["policy"][:, 0].tolist() == [1, 2, 1, 1]
    assert ask(cached, 2, 3)["policy"].tolist() == [[2, -2], [3, -3]]
    assert ask(cached, 3, 1, 2)["policy"][:, 0].tolist() == [3, 1, 2]
    assert cached.inference.rows == [2, 1]


def test_new_weights_answer_anew():
    """Those of the slot that they were loaded into, and only these."""
    cached = cache()
    cached.load({"bias": 10}, slot=3)
    both = [Span(3, 0, 2), Span(0, 2, 4)]
    assert ask(cached, 1, 2, 1, 2, spans=both)["policy"][:, 0].tolist() == [11, 12, 1, 2]
    cached.load({"bias": 100})
    assert ask(cached, 1, 2, 1, 2, spans=both)["policy"][:, 0].tolist() == [11, 12, 101, 102]
    cached.drop(3)
    cached.load({"bias": 20}, slot=3)
    assert ask(cached, 1, 2, 1, 2, spans=both)["policy"][:, 0].tolist() == [21, 22, 101, 102]
    assert cached.inference.rows == [4, 2, 2]


def test_what_only_critics_see_is_part_of_the_question():
    """And without it there is another answer."""
    cached = cache()
    assert ask(cached, 1, 1, hidden=[5, 6])["value"].ravel().tolist() == [6, 7]
    assert list(ask(cached, 1)) == ["policy"]
    assert ask(cached, 1, 1, hidden=[6, 7])["value"].ravel().tolist() == [7, 8]
    assert cached.inference.rows == [2, 1, 1]


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([1, 8]), st.sampled_from([64, 4096]))
def test_answers_are_those_of_the_runtime(random, places, most):
    """However many rows meet in a place of the table, and however often answers are forgotten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PLACES", places)
        patch.setattr(module, "_MOST_ANSWERS", most)
        cached, plain = cache(), Sum()
        for _ in range(60):
            if random.random() < 0.1:
                weights, slot = {"bias": random.randrange(1000)}, random.randrange(3)
                cached.load(weights, slot=slot)
                plain.load(weights, slot=slot)
            count = random.randrange(1, 12)
            numbers = [random.randrange(-100, 100) for _ in range(count)]
            bounds = sorted({0, count, *(random.randrange(count + 1) for _ in range(2))})
            spans = [Span(random.randrange(3), *bound) for bound in pairwise(bounds)]
            expected = ask(plain, *numbers, spans=spans)
            np.testing.assert_array_equal(ask(cached, *numbers, spans=spans)["policy"], expected["policy"])


def test_a_runtime_that_fails_leaves_no_answers(monkeypatch):
    """The same question is asked again, also where others were answered under its number before."""
    monkeypatch.setattr(module, "_MOST_ANSWERS", 16)
    cached, fails = cache(), Sum()
    for number in range(1, 16):
        ask(cached, number)
    fails.run = lambda *args, **kwargs: 1 / 0
    works, cached.inference = cached.inference, fails
    with pytest.raises(ZeroDivisionError):
        ask(cached, 1)  # the sixteenth call forgets the others, so that it has the number of the first again
    cached.inference = works
    assert ask(cached, 50, 1)["policy"][:, 0].tolist() == [50, 1]


def test_it_steps_aside_where_nothing_repeats():
    """And looks again later."""
    cached = cache(parameters=1_000_000)
    trial, rest = module._TRIAL_CALLS, module._REST_CALLS
    for call in range(trial):
        ask(cached, 0, 1, 2, 3, spans=[Span(call, 0, 4)])
    assert cached.inference.rows == [4] * trial
    for _ in range(rest):
        ask(cached, 9, 9, 9)
    assert cached.inference.rows[trial:] == [3] * rest
    for _ in range(2 * trial):
        ask(cached, 9, 9, 9, 9)
    assert cached.inference.rows[trial + rest :] == [1]


def test_the_share_that_is_evaluated_is_told():
    """Of all that was asked for since the last time, also where it steps aside or does not keep answers."""
    cached = cache()
    assert cached.evaluations.taken() == {}
    ask(cached, 1, 2, 2, 3)
    ask(cached, 1, 2, 2, 3)
    assert cached.evaluations.taken() == {"evaluated_share": 3 / 8}
    ask(cached, *[0] * (module._MOST_ANSWERS // 2))
    assert cached.evaluations.taken() == {"evaluated_share": 1.0}
    cached._resting, cached._calls = True, 0
    ask(cached, 1, 2)
    assert cached.evaluations.taken() == {"evaluated_share": 1.0}
    assert cached.evaluations.taken() == {}


def test_a_network_that_costs_nothing_is_asked_about_everything():
    """Though all of it repeats."""
    cached = cache(parameters=10)
    for _ in range(module._TRIAL_CALLS + 5):
        ask(cached, 1, 1)
    assert cached.inference.rows[1:] == [2] * 5


def test_what_is_too_large_to_keep_is_not_kept():
    """Rows whose bytes would fill the memory for answers within a few calls, and more rows than that at once."""
    cached = cache()
    board = np.zeros((2, module._MOST_BYTES // 4), np.int8)
    for _ in range(2):
        cached.run({"board": board}, privileged={}, state={})
    many = [0] * (module._MOST_ANSWERS // 2)
    for _ in range(2):
        ask(cached, *many)
    assert cached.inference.rows == [2, 2, len(many), len(many)]


def test_it_keeps_the_contract_of_runtimes():
    """Before torch, for any observations and slots."""
    check_inference(lambda network, request: EvaluationCache(Eager(network, request), LARGE))


class Remembering(TinyNetwork):
    """A network that could carry a state."""

    def initial_state(self, rows):
        """Return no state worth the name."""
        return {"count": torch.zeros(rows)}

    def unroll(self, *args, **kwargs):
        """Never asked here."""
        raise NotImplementedError


def test_networks_with_a_memory_have_none():
    """What they answer depends on more than they see."""
    board = {"board": spaces.Box(-1, 1, (4,))}
    request = NetworkRequest(observation=board, privileged={}, heads={"policy": 2}, critic_heads={})
    counted = Evaluations()
    plain, remembering = (
        make_inference(None, network(request), request, evaluations=counted) for network in (TinyNetwork, Remembering)
    )
    assert isinstance(plain, EvaluationCache)
    assert plain.evaluations is counted
    assert plain.parameters == sum(array.size for array in get_weights(plain.inference._module).values())
    assert isinstance(remembering, Eager)
    assert isinstance(make_inference(None, TinyNetwork(request), request), Eager)
