"""``ludus watch``: show or record matches."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import click
import numpy as np
from attrs import define, field
from ludus.cli_types import FiniteRange
from ludus.environment import Environment
from ludus.errors import ConfigError, ContractError
from ludus.lineup import Lineup, make_agents, make_lineup
from ludus.rendering import Frame, draw_match
from ludus.replays import find_matches, find_replay
from ludus.runs import open_run

from ludus_terminal.drawing import Drawing
from ludus_terminal.matches import MatchRunner, OpenMatch, Result, agents_text, match_options, open_match
from ludus_terminal.recording import Recorder, frame_seconds, frames_between, open_recorder
from ludus_terminal.replay import show_replay
from ludus_terminal.screens import SCREENS, Screen, WindowClosed, open_screen

__all__ = ["watch"]


@define(kw_only=True)
class _Presenter:
    """Shows and records the frames of a match.

    Args:
        environment: The environment.
        screen: Shows frames.
        drawing: Draws frames as images for the recorder.
        recorder: None without a recording.
        frame_s: Seconds to wait after each frame.
        every: Every so many frames are recorded.
    """

    environment: Environment
    screen: Screen
    drawing: Drawing
    recorder: Recorder | None
    frame_s: float
    every: int = 1
    _shown: int = field(default=0, init=False)  # frames of the match

    def show(self) -> None:
        """Show and record the current frame."""
        frame = _require_frame(self.environment)
        self.screen.show(frame)
        if self.recorder is not None and self._shown % self.every == 0:
            self.recorder.add(self.drawing(frame))
        self._shown += 1
        time.sleep(self.frame_s)

    def end_match(self) -> None:
        """Record the last frame of a match, for a second."""
        if self.recorder is not None:
            if (self._shown - 1) % self.every:
                self.recorder.add(self.drawing(_require_frame(self.environment)))
            self.recorder.end_match()
        self._shown = 0


def _require_frame(environment: Environment) -> Frame:
    frame = draw_match(environment, 0)
    if frame is None:
        raise ContractError(
            f"environment {environment.spec.name!r} cannot be watched: it has no frames (render_frame) and no text "
            f"(render)"
        )
    return frame


def _check_pair(
    context: click.Context, parameter: click.Parameter, pair: tuple[str, str] | None
) -> tuple[str, str] | None:
    """Refuse an option that stands where `--seats` expects its second participant, which click takes as its value."""
    for name in pair or ():
        if name.startswith("-"):
            raise click.BadParameter(
                f"expected two participants, got {name!r}; name one without --seats", context, parameter
            )
    return pair


@click.command()
@match_options
@click.argument("participants", metavar="[PARTICIPANTS]...", nargs=-1)
@click.option(
    "--seats",
    "pair",
    metavar="A B",
    nargs=2,
    callback=_check_pair,
    help="Two participants; the same as PARTICIPANTS.",
)
@click.option(
    "--delay",
    type=FiniteRange(0, 3600),
    help="Seconds between ticks; by default the duration of a tick in the game, 0.5 in turn-based games, else 0.1.",
)
@click.option("--fps", type=FiniteRange(0.01, 1000), help="Ticks per second, instead of --delay.")
@click.option("--matches", type=click.IntRange(min=1), default=1, show_default=True, help="Number of matches.")
@click.option(
    "--view",
    type=click.Choice(SCREENS),
    default="auto",
    show_default=True,
    help="How to show matches: text; image: as coloured characters; window; none. auto: none with --record, else text "
    "if the environment has some, else a window if there is a display, else an image.",
)
@click.option("--record", type=click.Path(path_type=Path), help="Write the matches as NAME.gif or NAME.mp4.")
@click.option(
    "--scale", type=FiniteRange(0.05, 20), default=1.0, show_default=True, help="Factor on the size of images."
)
@click.option(
    "--sprites",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of pictures NAME.png for the sprites of scenes.",
)
def watch(
    target: str | None,
    *,
    environment: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    participants: tuple[str, ...],
    pair: tuple[str, str] | None,
    delay: float | None,
    fps: float | None,
    matches: int,
    view: str,
    record: Path | None,
    scale: float,
    sprites: Path | None,
) -> None:
    """Watch participants of the run folder RUN, or scripted agents.

    PARTICIPANTS are models, anchors and agents in any order; ROLE=NAME and SEAT=NAME choose seats. Seats that are not
    named get the other participants, or the newest model of their role, or an anchor. With --record, matches are
    played as fast as possible and written into a file. If no participant is named and --seed is the seed of a match in
    the log of RUN, that match is shown as it was recorded, as by ludus replay.
    """
    if environment is not None and target is not None:  # without a run the first argument is a participant
        participants = (target, *participants)
        target = None
    names = (*(pair or ()), *participants)
    drawing = Drawing(scale, sprites)
    if target is not None and seed is not None and not names:
        options = {"view": view, "record": record, "drawing": drawing, "delay": delay, "fps": fps}
        if _show_logged_match(target, seed, overrides, **options):
            return
    if environment is not None and not names:
        raise ConfigError(f"--seats: missing; {agents_text(environment)}")
    with ExitStack() as stack:
        opened = open_match(target, environment, participants=names, overrides=overrides, rendering=True)
        match = stack.enter_context(closing(opened))
        frame_s = frame_seconds(match.spec, delay=delay, fps=fps)
        every = frames_between(frame_s)
        recorder = None
        if record is not None:
            recorder = stack.enter_context(closing(open_recorder(record, frame_s=frame_s * every)))
        kind = "none" if record is not None and view == "auto" else view
        frame = _require_frame(match.environment)
        screen = open_screen(kind, match.spec.name, frame, drawing=drawing, environment=match.environment)
        presenter = _Presenter(
            environment=match.environment,
            screen=stack.enter_context(closing(screen)),
            drawing=drawing,
            recorder=recorder,
            frame_s=0.0 if kind == "none" else frame_s,
            every=every,
        )
        _play(match, names, presenter, seed=secrets.randbits(32) if seed is None else seed, matches=matches)
    if record is not None:
        click.echo(f"{record}: {record.stat().st_size / 1e6:.2f} MB")


def _show_logged_match(target: str, seed: int, overrides: Sequence[str], **options: Any) -> bool:
    """Show the match of a run's log that has a seed as it was recorded; return False if there is none.

    Raises:
        ReplayError: The match has no replay, or differs from it.
    """
    if not (Path(target) / "run.toml").is_file():
        return False  # `open_match` explains it
    with open_run(target, overrides=overrides) as run:
        if logged := find_matches(run, str(seed)):
            show_replay(run, find_replay(run, logged[0]), **options)
        return bool(logged)


def _play(match: OpenMatch, names: Sequence[str], presenter: _Presenter, *, seed: int, matches: int) -> None:
    """Seat the participants, and play and show matches."""
    lineup = make_lineup(match.spec, names, match.source)
    (agents,) = make_agents([lineup], match.source, match.environment)
    click.echo(f"{lineup.describe()}; seed {seed}")
    if names and (filled := lineup.describe_filled()):
        click.echo(filled)
    runner = MatchRunner(match=match, agents=agents, rng=np.random.default_rng(seed), on_tick=presenter.show)
    with suppress(WindowClosed):
        _play_and_count(runner, lineup, presenter, seed=seed, matches=matches)


def _play_and_count(runner: MatchRunner, lineup: Lineup, presenter: _Presenter, *, seed: int, matches: int) -> None:
    """Play matches, and print what every participant has got: points, or mean returns where these are the score."""
    by_return = runner.match.spec.score == "return"
    total = np.zeros(len(lineup.names))
    for number in range(matches):
        result = runner.play((seed + number) % 2**64)
        presenter.end_match()
        points = np.array([_score(result, lineup, index, by_return=by_return) for index in range(len(lineup.names))])
        total += points
        click.echo(f"match {number + 1}{' (returns)' if by_return else ''}: {_points_text(lineup.names, points)}")
    if matches > 1 and by_return:
        click.echo(f"mean return: {_points_text(lineup.names, total / matches)}")
    elif matches > 1:
        click.echo(f"total: {_points_text(lineup.names, total)}")


def _score(result: Result, lineup: Lineup, index: int, *, by_return: bool) -> float:
    """Return what the seats of a participant have got: the points of their teams, or their mean return."""
    if by_return:
        return float(result.returns[list(lineup.seats_of(index))].mean())
    return float(result.outcome[lineup.teams_of(index)].sum())


def _points_text(names: Sequence[str], points: np.ndarray) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in zip(names, points, strict=True))
