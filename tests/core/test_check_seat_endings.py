"""`check_environment` finds ends of seats that break the contract."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, Scenario, allocate_tick
from ludus.errors import ContractError
from ludus.testing import check_environment


class Dropout:
    """Every seat plays until it chooses 0, which terminates it, or until tick 6, which truncates the match.

    The tick after the one on which the second seat has lived for three ticks truncates that seat.
    """

    seat_endings = True

    def __init__(self, num_matches: int) -> None:
        role = Role(
            name="player",
            observation_space=spaces.Box(0, 10, (2,), np.float32),
            action_space=spaces.Discrete(3),
            teams=(0, 1, 2),
            seat_endings=self.seat_endings,
        )
        self.spec = EnvironmentSpec(name="dropout", roles=(role,), turn="simultaneous", max_ticks=6)
        self.num_matches = num_matches
        self.now = allocate_tick(self.spec, num_matches)
        self.alive = np.zeros((num_matches, 3), bool)
        self.ticks = np.zeros(num_matches, int)

    def reset(self, seeds, *, indices=None, scenarios=None):
        if any(scenario != Scenario() for scenario in scenarios or ()):
            raise ContractError("unknown scenario")
        indices = np.arange(self.num_matches) if indices is None else indices
        self.alive[indices], self.ticks[indices] = True, 0
        self.now.clear(indices)
        return self.tick()

    def step(self, actions):
        choices, player = actions["player"][:, :, 0], self.now.roles["player"]
        if ((choices > 2) & self.alive).any():
            raise ContractError("a choice is out of range")
        running = self.alive.any(axis=1)
        self.ticks += running
        self.now.clear(slice(None))
        terminated, truncated = self.alive & (choices == 0), np.zeros_like(self.alive)
        truncated[:, 1] = self.alive[:, 1] & ~terminated[:, 1] & (self.ticks == 3)
        player.reward[:] = self.alive
        self.alive &= ~(terminated | truncated)
        self.now.terminated[:] = running & ~self.alive.any(axis=1)
        self.now.truncated[:] = running & ~self.now.terminated & (self.ticks == 6)
        self.alive &= ~self.now.truncated[:, None]
        if self.seat_endings:
            player.terminated[:], player.truncated[:] = terminated, truncated
        return self.tick()

    def tick(self):
        player = self.now.roles["player"]
        player.observation["obs"][..., 0] = self.ticks[:, None] + 1
        player.observation["obs"][..., 1] = self.alive
        player.acting[:] = self.alive
        self.change(self.now, player)
        return self.now

    def change(self, tick, player):
        """Break the contract; overridden."""

    def close(self):
        pass


def test_a_game_in_which_seats_end_is_valid():
    """Seats die, are truncated alone, and outlive the others."""
    check_environment(Dropout)


def changed(change, **attributes):
    """Return the game with ticks that `change(game, tick, player)` edits."""
    return type("Changed", (Dropout,), {"change": change, **attributes})


def act_after_the_end(game, tick, player):
    """Let a seat that has ended act."""
    running = game.alive.any(axis=1)
    player.acting[running] = True


def flag_all_later_ticks(game, tick, player):
    """Repeat the flag while the match goes on."""
    running = game.alive.any(axis=1) & (game.ticks > 0)
    player.terminated |= running[:, None] & ~game.alive
    player.truncated &= ~player.terminated


def flag_both(game, tick, player):
    """Set both flags."""
    player.truncated |= player.terminated


def flag_after_reset(game, tick, player):
    """Flag a seat on the first tick of a match."""
    player.terminated[game.ticks == 0] = True
    player.acting[game.ticks == 0] = False


def flag_idle(game, tick, player):
    """Flag seats of matches that have ended."""
    player.terminated |= (~game.alive.any(axis=1) & ~tick.terminated & ~tick.truncated)[:, None]


def hide_final(game, tick, player):
    """Show a truncated seat an observation that is outside of the space."""
    player.observation["obs"][player.truncated] = 99


def lose_flags(game, tick, player):
    """Return no flags although the role declares them."""
    player.terminated = None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (act_after_the_end, "a seat acts after its end"),
        (flag_all_later_ticks, "a seat ended twice in one match; expected True on one tick only"),
        (flag_both, "a seat is terminated and truncated on one tick"),
        (flag_after_reset, "terminated or truncated of a seat is set right after a reset"),
        (flag_idle, "a seat ended in a match that is not running"),
        (hide_final, "observation leaf 'obs' is not in"),
        (lose_flags, "terminated: expected bool"),
    ],
)
def test_a_broken_end_of_a_seat_is_found(change, problem):
    """The message names the problem."""
    with pytest.raises(ContractError, match=problem):
        check_environment(changed(change))


def test_flags_without_a_declaration_are_found():
    """The engine would ignore them."""

    def add_flags(game, tick, player):
        player.terminated = player.truncated = np.zeros_like(player.acting)

    with pytest.raises(ContractError, match="expected None without seat_endings in the role"):
        check_environment(changed(add_flags, seat_endings=False))
