"""``ludus replay``: show, record or verify matches that a run has recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import numpy as np
from ludus.cli_types import FiniteRange
from ludus.environment import Environment, EnvironmentSpec
from ludus.errors import ConfigError, ReplayError
from ludus.printing import printable
from ludus.rendering import Frame, Scene, enable_rendering, scene_to_json
from ludus.replays import (
    Replay,
    ReplayStep,
    StreamedGame,
    StreamStep,
    find_matches,
    find_replay,
    play_replay,
    stream_steps,
    verify_replays,
)
from ludus.runs import Run, match_seeds, open_run

from ludus_terminal.drawing import Drawing
from ludus_terminal.recording import frame_seconds, write_recording
from ludus_terminal.replay_frames import ReplayFrames, decision_json
from ludus_terminal.replay_player import play_frames
from ludus_terminal.screens import SCREENS, open_screen

__all__ = ["replay", "show_replay"]


@click.command()
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("match", metavar="[MATCH]", required=False)
@click.option(
    "--verify",
    metavar="[N]",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=10**9,
    help="Play the newest N replays again, or all of them, and compare every state with the record.",
)
@click.option("--view", type=click.Choice(SCREENS), default="auto", show_default=True, help="As for ludus watch.")
@click.option("--record", type=click.Path(path_type=Path), help="Write the match as NAME.gif or NAME.mp4.")
@click.option("--json", "as_json", is_flag=True, help="Print the match, or the result of --verify, as JSON.")
@click.option("--plain", is_flag=True, help="Leave out what the stored models compute: probabilities and values.")
@click.option("--from", "first", type=click.IntRange(0), default=0, show_default=True, help="First tick to show.")
@click.option("--step", is_flag=True, help="Start paused; see the keys below.")
@click.option("--delay", type=FiniteRange(0, 3600), help="Seconds between ticks, as for ludus watch.")
@click.option("--fps", type=FiniteRange(0.01, 1000), help="Ticks per second, instead of --delay.")
@click.option(
    "--scale", type=FiniteRange(0.05, 20), default=1.0, show_default=True, help="Factor on the size of images."
)
@click.option(
    "--sprites",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of pictures NAME.png for the sprites of scenes.",
)
def replay(
    run_dir: Path,
    match: str | None,
    *,
    verify: int | None,
    view: str,
    record: Path | None,
    as_json: bool,
    plain: bool,
    first: int,
    step: bool,
    delay: float | None,
    fps: float | None,
    scale: float,
    sprites: Path | None,
) -> None:
    """Show a match of the run folder RUN as it was recorded: by playing it again, or from its recorded frames.

    MATCH is FIXTURE.NUMBER, or the seed of a match; `ludus league RUN matches` lists matches. Keys in a terminal or
    window: space pauses, n and p (or the arrows) step, N and P jump by 10 ticks, 0 and $ go to start and end, q quits.
    """
    if (match is None) == (verify is None):
        raise ConfigError("give either a match, FIXTURE.NUMBER or a seed, or --verify")
    if match is None:
        _verify(run_dir, verify, as_json=as_json)
        return
    with open_run(run_dir) as run:
        chosen = _find(run, match)
        if as_json:
            _print_json(run, chosen, evaluate=not plain)
            return
        show_replay(
            run,
            chosen,
            view=view,
            record=record,
            drawing=Drawing(scale, sprites),
            delay=delay,
            fps=fps,
            evaluate=not plain,
            first=first,
            paused=step,
        )


def _find(run: Run, name: str) -> Replay:
    matches = find_matches(run, name)
    if not matches:
        raise ReplayError(f"match {name}: not in the log of {run.folder}; `ludus league RUN matches` lists matches")
    others = ", ".join(f"{match.fixture.id}.{match.number}" for match in matches[1:])
    if others:
        click.echo(f"seed {name}: also of {others}", err=True)
    return find_replay(run, matches[0])


def _verify(run_dir: Path, last: int | None, *, as_json: bool) -> None:
    """Verify replays and print the result.

    Raises:
        ReplayError: A replay is damaged or differs.
    """
    with open_run(run_dir) as run:
        found = verify_replays(run, last=last)
    if as_json:
        counts = ("stored", "played", "streams", "superseded")
        values = {name: getattr(found, name) for name in counts}
        click.echo(json.dumps({**values, "problems": found.problems}, indent=2))
    else:
        superseded = f", {found.superseded} are not of the log" if found.superseded else ""
        streams = f"; {found.streams} are streams of games that do not repeat matches" if found.streams else ""
        click.echo(f"{run_dir}: {found.stored} replays{superseded}; {found.played} were played again{streams}")
    if found.problems:
        raise ReplayError("\n".join(map(printable, found.problems)))


def show_replay(
    run: Run,
    replay: Replay,
    *,
    view: str,
    record: Path | None,
    drawing: Drawing,
    delay: float | None,
    fps: float | None,
    evaluate: bool = True,
    first: int = 0,
    paused: bool = False,
) -> None:
    """Show or record a match: play it again, or show its recorded stream.

    Args:
        run: The run.
        replay: The match.
        view: One of `SCREENS`.
        record: File to write; None for none.
        drawing: Draws frames as images.
        delay: Seconds between ticks; None for the default.
        fps: Ticks per second, instead of `delay`.
        evaluate: Whether the stored models compute probabilities and values.
        first: First tick to show.
        paused: Whether to start paused.
    """
    kind = "none" if record is not None and view == "auto" else view
    frames = ReplayFrames(replay.ticks, drawing)
    spec = _add_frames(frames, run, replay, text=kind in ("auto", "text"), evaluate=evaluate)
    frame_s = frame_seconds(spec, delay=delay, fps=fps, ticks=frames.ticks_between)
    first = frames.index_of(first)
    click.echo(_describe(spec, replay))
    if replay.stream is not None:
        end = f", which ends on tick {frames.last_tick}" if frames.last_tick < replay.ticks else ""
        click.echo(f"a recorded stream{end}: the game does not repeat matches, so models are not evaluated")
    if record is not None:
        write_recording(record, frames.images(first), frame_s=frame_s)
        click.echo(f"{record}: {record.stat().st_size / 1e6:.2f} MB")
    if kind == "none":
        return
    with closing(open_screen(kind, spec.name, frames.shown(first), drawing=drawing)) as screen:
        play_frames(frames, screen, frame_s=frame_s, first=first, paused=paused)


def _add_frames(
    frames: ReplayFrames, run: Run, replay: Replay, *, text: bool, evaluate: bool
) -> EnvironmentSpec | StreamedGame:
    """Add the frames of a match, and return what describes its seats and ticks; arguments as of `show_replay`."""
    if replay.stream is not None:
        frames.add_stream(replay)
        return replay.stream.game
    with closing(_make_environment(run)) as environment:
        for step in play_replay(run, replay, environment, evaluate=evaluate):
            frames.draw_step(step, environment, text=text)
        return environment.spec


def _make_environment(run: Run) -> Environment:
    with enable_rendering():
        environment = run.make_environment(1)
    environment.reset(match_seeds(0, np.array([0])))  # some environments know their spaces only after the first reset
    return environment


def _describe(spec: EnvironmentSpec | StreamedGame, replay: Replay) -> str:
    fixture, by_team = replay.fixture, dict[int, dict[str, None]]()
    for seat, participant in zip(spec.seats, fixture.participants, strict=True):
        by_team.setdefault(seat.team, {})[participant] = None
    teams = " against ".join(" with ".join(names) for _, names in sorted(by_team.items()))
    points = " : ".join(f"{points:g}" for points in replay.outcome)
    scenario = "" if fixture.scenario.name == "default" else f", scenario {fixture.scenario.name}"
    return printable(f"match {replay.name}: {teams}, {points} after {replay.ticks} ticks{scenario} ({fixture.reason})")


def _print_json(run: Run, replay: Replay, *, evaluate: bool) -> None:
    if replay.stream is not None:
        click.echo(json.dumps(_replay_json(replay, stream_steps(replay), None), indent=2))
        return
    environment = _make_environment(run)
    try:
        steps = play_replay(run, replay, environment, evaluate=evaluate)
        click.echo(json.dumps(_replay_json(replay, steps, environment), indent=2))
    finally:
        environment.close()


def _replay_json(
    replay: Replay, steps: Iterable[ReplayStep | StreamStep], environment: Environment | None
) -> dict[str, Any]:
    fixture = replay.fixture

    def ticks() -> Iterator[dict[str, Any]]:
        for step in steps:
            decisions = [decision_json(decision, environment) for decision in step.decisions]
            frame = {"frame": _frame_json(step.frame)} if isinstance(step, StreamStep) else {}
            yield {"tick": step.number, "decisions": decisions, **frame}

    return {
        "match": replay.name,
        "seed": int(match_seeds(fixture.seed, np.array([replay.number]))[0]),
        "kind": fixture.kind,
        "participants": fixture.participants,
        "scenario": [fixture.scenario.name, dict(fixture.scenario.parameters)],
        "reason": fixture.reason,
        "outcome": replay.outcome,
        "ticks": list(ticks()),
    }


def _frame_json(frame: Frame | None) -> Any:
    return scene_to_json(frame) if isinstance(frame, Scene) else frame
