"""Entities, masks and odds of ``targets``."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus_probes.environment import ROLE
from ludus_probes.targets import PLACES

ROWS = 8000
BLIND = np.mean(1 / np.arange(1, PLACES + 1))  # the chance to hit one of 1 to 8


@pytest.fixture
def observed(make, start):
    """Return what is seen at the start of 8,000 matches, and the mask."""
    player = start(make("targets", ROWS))
    return {name: leaf[:, 0] for name, leaf in player.observation.items()} | {"mask": player.action_mask[:, 0]}


def test_the_right_button_on_the_right_entity_is_worth_one(make, make_agent, play, by_agent):
    """In every match."""
    environment = make("targets", ROWS)
    total = play(environment, by_agent(make_agent("targets-perfect", environment)))
    assert total.min() == 1.0 == total.max()
    assert environment._tick.outcome.min() == 1.0


def test_masks_are_neither_scaled_nor_normalized(make):
    """Interfaces and algorithms leave binary leaves alone."""
    space = make("targets", 1).spec.roles[0].observation_space["present"]
    assert space == spaces.MultiBinary(PLACES)


def test_who_looks_at_no_entity_receives_what_chance_gives(make, play, observed):
    """Any present entity and the right button: exactly 1/count, 0.3397 on average; ⅔ of that without a button."""
    present = observed["present"] > 0
    first = present.argmax(axis=1)
    totals = np.zeros((3, PLACES, ROWS))
    environment = make("targets", ROWS)
    for button, place in np.ndindex(3, PLACES):
        chosen = np.stack([np.full(ROWS, button), np.where(present[:, place], place, first)], axis=1)
        totals[button, place] = play(environment, lambda *_, chosen=chosen: chosen[:, None])[:, 0] * present[:, place]
    count = present.sum(axis=1)
    right_button = np.take_along_axis(totals, observed["button"].argmax(axis=1)[None, None], axis=0)[0]
    assert np.allclose(right_button.sum(axis=0) / count, 1 / count)
    assert np.allclose(totals.mean(axis=0).sum(axis=0) / count, (1 / 2 + 1 / 6) / count)
    assert abs(BLIND - 0.3397) < 1e-4
    assert abs(np.bincount(count, minlength=9)[1:] - ROWS / 8).max() < 150


def test_the_button_counts_on_the_right_entity_only(make, make_agent, play, by_agent, observed):
    """A wrong one leaves ½ there; the right one is worth nothing elsewhere."""
    environment = make("targets", ROWS)
    perfect = by_agent(make_agent("targets-perfect", environment))

    def wrong_button(player, number):
        return (perfect(player, number) + np.array([1, 0])) % np.array([3, PLACES])

    def wrong_entity(player, number):
        actions = perfect(player, number)
        others = player.action_mask[:, :, 3:].copy()
        np.put_along_axis(others, actions[..., 1:], False, axis=2)
        alone = ~others.any(axis=2)
        actions[..., 1] = np.where(alone, actions[..., 1], others.argmax(axis=2))
        return actions

    assert play(environment, wrong_button).tolist() == [[0.5]] * ROWS
    assert not environment._tick.outcome.any()
    alone = observed["present"].sum(axis=1) == 1
    assert np.array_equal(play(environment, wrong_entity)[:, 0] == 1.0, alone)


def test_exactly_one_entity_is_of_the_kind_that_is_sought(observed):
    """The others are of the other kinds, equally often."""
    fits = (observed["entities"] * observed["sought"][:, None]).sum(axis=2)
    assert fits.sum(axis=1).tolist() == [1.0] * ROWS
    ahead = (observed["entities"].argmax(axis=2) - observed["sought"].argmax(axis=1)[:, None]) % 4
    counts = np.bincount(ahead[observed["present"] > 0], minlength=4)
    assert abs(counts[1:] / counts[1:].sum() - 1 / 3).max() < 0.01


def test_absent_entities_are_zeros_and_masked(observed):
    """Present ones have one kind each; buttons are always allowed."""
    assert np.array_equal(observed["entities"].sum(axis=2), observed["present"])
    assert np.array_equal(observed["mask"][:, 3:], observed["present"] > 0)
    assert observed["mask"][:, :3].all()


def test_places_are_drawn_anew_in_every_match(observed):
    """The target is in every place equally often, whatever the number of entities."""
    places = (observed["entities"] * observed["sought"][:, None]).sum(axis=2).argmax(axis=1)
    assert abs(np.bincount(places) - ROWS / PLACES).max() < 150
    lone = places[observed["present"].sum(axis=1) == 1]
    assert abs(np.bincount(lone) - len(lone) / PLACES).max() < 50


def test_kinds_and_buttons_are_equally_likely(observed):
    """All pairs of them."""
    pairs = observed["sought"].argmax(axis=1) * 3 + observed["button"].argmax(axis=1)
    assert abs(np.bincount(pairs) - ROWS / 12).max() < 120


def test_a_match_is_drawn_as_text(make, start):
    """Every place with its kind or a dash."""
    environment = make("targets")
    player = start(environment)
    shown = environment.render(0).partition(";")[0].split()
    kinds, present = player.observation["entities"][0, 0].argmax(axis=1), player.observation["present"][0, 0]
    assert shown == [f"{place}:{kinds[place] if present[place] else '-'}" for place in range(PLACES)]
    assert environment.parse_action(ROLE, "2 7").tolist() == [2, 7]
