"""``ludus play``: play a match in the terminal."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import click
import numpy as np
from attrs import define
from ludus.controls import Controls, find_controls
from ludus.environment import Playable
from ludus.errors import ConfigError, ContractError
from ludus.lineup import make_agents, make_lineup, parse_place
from ludus.spaces import label_sizes, legal_actions, real_sizes

from ludus_terminal.matches import MatchRunner, OpenMatch, agents_text, match_options, open_match

if TYPE_CHECKING:
    from ludus.environment import EnvironmentSpec, Role

__all__ = ["Quit", "name_legal_actions", "play"]

_MAX_LISTED = 60  # legal moves listed before the user's turn


class Quit(Exception):  # noqa: N818 - not an error
    """The user quits the match."""


@define
class _User:
    """An agent that reads its actions from the terminal."""

    game: Playable
    role: Role
    controls: Controls | None

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing: there is no state."""

    def act(
        self,
        observation: Mapping[str, np.ndarray],  # noqa: ARG002 - users read the rendered board
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,  # noqa: ARG002 - there is one match
        rng: np.random.Generator,  # noqa: ARG002 - users need none
    ) -> np.ndarray:
        """Return the typed action ``[1, L]``; repeat the prompt until the action is legal.

        Raises:
            Quit: The user typed ``quit``, or the input ended.
        """
        mask = None if action_mask is None else action_mask[0]
        click.echo(self.game.render(0))
        click.echo(f"legal moves: {self._list_actions(mask)}")
        while True:
            text = _read_line("your move (or quit): ")
            key = "" if self.controls is None else self.controls.action({text})
            try:
                action = np.asarray(self.game.parse_action(self.role.name, key or text))
            except ValueError as error:
                click.echo(str(error))
                continue
            if legal_actions(self.role.action_space, action, mask):
                return action[None]
            name = self.game.action_name(self.role.name, action)
            click.echo(f"{name} is not legal now; legal: {self._list_actions(mask)}")

    def _list_actions(self, mask: np.ndarray | None) -> str:
        names = name_legal_actions(self.game, self.role, mask)
        separator = ", " if any(" " in name for name in names) else " "
        return separator.join(names) or f"any {self.role.name} action"


def name_legal_actions(game: Playable, role: Role, mask: np.ndarray | None) -> list[str]:
    """Return the names of legal actions, and ``"…"`` if there are more; empty where actions hold real numbers.

    Args:
        game: The game.
        role: Role that decides.
        mask: ``[A] bool``; None: every action is legal.
    """
    if real_sizes(role.action_space):
        return []
    sizes = label_sizes(role.action_space)
    labels = [np.ones(size, bool) for size in sizes] if mask is None else np.split(mask, np.cumsum(sizes)[:-1])
    choices = itertools.product(*(np.flatnonzero(label) for label in labels))
    shown = [game.action_name(role.name, np.array(choice)) for choice in itertools.islice(choices, _MAX_LISTED)]
    return [*shown, *(["…"] if next(choices, None) is not None else [])]


def _describe_keys(controls: Controls) -> str:
    """Return the single keys that can be typed, with their actions."""
    keys = ((next(iter(chord)), action) for chord, action in controls.keys.items() if len(chord) == 1)
    return ", ".join(key if key == action else f"{key} {action}" for key, action in keys if len(key.strip()) == 1)


def _read_line(prompt: str) -> str:
    while True:
        try:
            text = input(prompt).strip()
        except EOFError:
            click.echo()
            raise Quit from None
        if text.lower() in {"quit", "exit"}:
            raise Quit
        if text:
            return text


@click.command()
@match_options
@click.option(
    "--opponent",
    "opponents",
    metavar="NAME",
    multiple=True,
    help="Participant of other seats, also as ROLE=NAME or SEAT=NAME; may be repeated. Seats without one get the "
    "newest model of their role, or an anchor.",
)
@click.option("--seat", default="0", show_default=True, help="Your seat, or a role to take its first seat.")
def play(
    target: str | None,
    environment: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    opponents: tuple[str, ...],
    seat: str,
) -> None:
    """Play against models of the run folder RUN, or against scripted agents."""
    if environment is not None and not opponents:
        raise ConfigError(f"--opponent: missing; {agents_text(environment)}")
    with closing(open_match(target, environment, participants=opponents, overrides=overrides)) as match:
        game = _require_playable(match)
        number = _user_seat(match.spec, seat)
        own = match.spec.seats[number]
        lineup = make_lineup(match.spec, opponents, match.source, user_seat=number)
        user = _User(game, match.spec.role(own.role), find_controls(match.environment, own.role, own.index))
        (agents,) = make_agents([lineup], match.source, match.environment, user=user)
        seed = secrets.randbits(32) if seed is None else seed
        if mates := lineup.mates():
            click.echo(f"your team mates: {', '.join(mates)}")
        click.echo(f"you: seat {number} ({own.role}); opponent: {', '.join(lineup.opponents()) or 'none'}; seed {seed}")
        if user.controls is not None:
            click.echo(f"keys: {_describe_keys(user.controls)}")
        try:
            result = MatchRunner(match=match, agents=agents, rng=np.random.default_rng(seed)).play(seed)
        except Quit:
            click.echo("bye")
            return
        click.echo(game.render(0))
        if match.spec.score == "return":
            click.echo(f"your return: {result.returns[number]:g}")
            return
        points = float(result.outcome[own.team])
        click.echo({1.0: "you won", 0.5: "a draw", 0.0: "you lost"}.get(points, f"you have {points:g} points"))


def _require_playable(match: OpenMatch) -> Playable:
    if not isinstance(match.environment, Playable):
        raise ContractError(
            f"environment {match.spec.name!r} cannot be played in a terminal: it lacks render, action_name, "
            f"parse_action"
        )
    return match.environment


def _user_seat(spec: EnvironmentSpec, text: str) -> int:
    """Return the number of the seat that a text names: a seat, or the first seat of a role."""
    try:
        role, number = parse_place(spec, text)
    except ConfigError as error:
        raise click.BadParameter(str(error), param_hint="--seat") from None
    first = next(i for i, seat in enumerate(spec.seats) if seat.role == role)
    return first if number is None else number
