"""What ``memory-game`` shows when, and what it is worth to remember."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_probes.environment import ROLE

ROWS = 4000


def watch(make, start, **options):
    """Return all observations of matches ``[ticks, B, choices + 2]``, the final one included."""
    environment = make("memory-game", ROWS, **options)
    player = start(environment)
    observed = [player.observation["obs"][:, 0].copy()]
    while player.acting.any():
        environment.step({ROLE: np.zeros((ROWS, 1, 1), np.int64)})
        observed.append(player.observation["obs"][:, 0].copy())
    return np.stack(observed)


@pytest.mark.parametrize("delay", [1, 6, 50])
def test_who_remembers_receives_one(make, make_agent, play, by_agent, delay):
    """In every match, at every delay, and wins."""
    environment = make("memory-game", ROWS, delay=delay)
    total = play(environment, by_agent(make_agent("memory-game-perfect", environment)))
    assert total.min() == 1.0 == total.max()
    assert environment._tick.outcome.min() == 1.0


@pytest.mark.parametrize("choices", [2, 4])
def test_policy_without_memory_is_right_once_in_the_choices(make, start, play, choices):
    """The question looks the same in all matches, so a policy without memory always gives one answer: 1/choices."""
    observed = watch(make, start, choices=choices)
    assert (observed[-2] == observed[-2, :1]).all()
    cue = observed[0, :, :choices].argmax(axis=1)
    for answer in range(choices):
        environment = make("memory-game", ROWS, choices=choices)
        total = play(environment, lambda *_, answer=answer: np.full((ROWS, 1, 1), answer))[:, 0]
        by_cue = [total[cue == one].mean() for one in range(choices)]
        assert np.mean(by_cue) == 1 / choices


def test_cues_are_equally_likely(make, start):
    """4,000 matches, four cues."""
    cues = watch(make, start)[0, :, :4].argmax(axis=1)
    assert abs(np.bincount(cues, minlength=4) - 1000).max() < 120


def test_only_the_last_answer_counts(make, play, start):
    """Naming the cue on every tick but the last is worth nothing."""
    cue = watch(make, start)[0, :, :4].argmax(axis=1)
    right = cue[:, None, None]
    environment = make("memory-game", ROWS)
    assert not play(environment, lambda _, number: right if number < 7 else (right + 1) % 4).any()
    assert play(environment, lambda _, number: right if number == 7 else (right + 1) % 4).all()


def test_cue_delay_and_question_are_shown_in_this_order(make, start):
    """One flag each; a symbol with the cue and in the delay, none with the question and at the end."""
    observed = watch(make, start, delay=3)
    assert len(observed) == 6
    assert (observed[:, :, 4] == np.array([1, 0, 0, 0, 0, 0])[:, None]).all()
    assert (observed[:, :, 5] == np.array([0, 0, 0, 0, 1, 0])[:, None]).all()
    assert (observed[:, :, :4].sum(axis=2) == np.array([1, 1, 1, 1, 0, 0])[:, None]).all()


def test_distractors_say_nothing_about_the_cue(make, start):
    """All pairs of cue and distractor, and of two distractors, are equally likely."""
    symbols = watch(make, start, delay=2)[:3, :, :4].argmax(axis=2)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        counts = np.bincount(symbols[one] * 4 + symbols[other], minlength=16)
        assert abs(counts - 250).max() < 70


def test_the_delay_may_be_blank(make, start):
    """Without distractor."""
    assert not watch(make, start, distractor=False)[1:-2].any()


def test_the_agent_forgets_when_told_and_knows_that_it_does_not_know(make, make_agent):
    """Its value is the chance of a guess then; other streams keep their cue."""
    agent = make_agent("memory-game-perfect", make("memory-game"))
    cue = np.zeros((2, 6), np.float32)
    cue[:, 3] = cue[:, 4] = 1.0
    more = {"action_mask": None, "seat_ids": np.array([5, 900]), "rng": np.random.default_rng(0)}
    assert agent.act({"obs": cue}, **more).tolist() == [[3], [3]]
    agent.reset(np.array([900, 2000]))
    actions, values = agent.act_and_evaluate({"obs": np.zeros((2, 6), np.float32)}, **more)
    assert actions.tolist() == [[3], [0]]
    assert values.tolist() == [1.0, 0.25]
