"""The Python API at the top of the package: train a league, resume it, and play matches between its participants.

`ludus` imports this module on first use, as it imports NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from ludus._config.run_config import load_config, parse_config
from ludus._config.toml import apply_overrides
from ludus._plugins.manager import load_plugins
from ludus._run import runner
from ludus.errors import RunError
from ludus.levels import WeakenedSource
from ludus.lineup import make_agents, make_lineup
from ludus.runs import Run, open_run, play_matches
from ludus.trust import ConfigSource

if TYPE_CHECKING:
    from ludus._run.session import RunResult
    from ludus.environment import Scenario


@frozen(kw_only=True)
class MatchResult:
    """The result of one match.

    Attributes:
        outcome: Points of every team: 1 for a win, ½ for a draw, 0 for a loss.
        ticks: Length of the match.
        returns: Sum of the rewards of every seat.
        participants: Participant of every seat, also of those that were not named.
    """

    outcome: tuple[float, ...]
    ticks: int
    returns: tuple[float, ...]
    participants: tuple[str, ...]


def train(
    config: str | Path | Mapping[str, Any],
    *,
    run_dir: str | Path,
    overrides: Sequence[str] = (),
    print_line: Callable[[str], None] = lambda _: None,
) -> Run:
    """Train a league until one of its limits is reached, and open the run.

    ::

        import ludus

        limit = ["run.decisions=20000"]
        with ludus.train("examples/tictactoe.toml", run_dir="runs/tictactoe", overrides=limit) as run:
            for name, player in run.league.players.items():
                print(name, player.decisions, run.league.rating(player.models[-1]).mean)
            result = ludus.play_match(run, "main_agent@latest", "random", seed=7)
            print(result.outcome, result.ticks)
            with closing(run.make_environment(1)) as environment:
                agent = run.agent("main_agent@latest", "player", environment=environment)

    SIGINT (Ctrl-C) stops the run cleanly and opens it; a second one raises KeyboardInterrupt. `resume` goes on.

    Args:
        config: Path of a TOML file, or the tables of such a file. Tables may name any Python module except those of
            Python itself; do not pass tables of a file that you do not trust. See `ludus.trust`.
        run_dir: Folder of the new run.
        overrides: Texts ``key.path=value`` that replace single values of the configuration.
        print_line: Prints one line about the progress of the run; nothing is printed by default.

    Returns:
        The run, opened by `ludus.runs.open_run`; close it by a ``with`` block.

    Raises:
        ConfigError: With one line for every mistake in the configuration.
        RunError: The folder holds a run already, or cannot be written; or nothing was learned, see the message.
        LudusError: The run cannot go on.
    """
    plugins, folder = load_plugins(), Path(run_dir)
    if isinstance(config, Mapping):
        tables = apply_overrides(config, overrides)
        origin = ConfigSource(is_program=True)
        parsed = parse_config(tables, source="config", plugins=plugins, overrides=overrides, origin=origin)
    else:
        parsed = load_config(config, overrides=overrides, plugins=plugins)
    result = runner.train(parsed, plugins=plugins, run_dir=folder, print_line=print_line)
    return _open_result(result, folder)


def resume(
    run_dir: str | Path, *, overrides: Sequence[str] = (), print_line: Callable[[str], None] = lambda _: None
) -> Run:
    """Continue a run from its last committed state, and open it.

    Args:
        run_dir: Folder of the run.
        overrides: Changes of its configuration, which are kept. Limits count from the first start of the run.
        print_line: As for `train`.

    Returns:
        The run, as from `train`.

    Raises:
        ConfigError: With one line for every mistake in the configuration.
        RunError: The folder holds no run, the limits are reached already, or nothing was learned.
        LudusError: The run cannot go on.
    """
    folder = Path(run_dir)
    result = runner.resume(folder, plugins=load_plugins(), overrides=tuple(overrides), print_line=print_line)
    return _open_result(result, folder)


def _open_result(result: RunResult, folder: Path) -> Run:
    if result.problem:
        raise RunError(f"{folder}: {result.problem}")
    return open_run(folder)


def play_match(
    run: Run, *participants: str, seed: int = 0, scenario: Scenario | None = None, deterministic: bool = False
) -> MatchResult:
    """Play one match between participants of a run, in this process; nothing is written to the run.

    Args:
        run: An opened run.
        participants: Models (``"main_agent@latest"``, ``"main_agent@7"``), anchors of the run, or installed agents, in
            any order: models take seats of their role, others the teams that remain. ``"ROLE=NAME"`` and
            ``"SEAT=NAME"`` choose seats. `ludus.lineup` has all rules, also for seats that are not named.
        seed: Seed of the match and of all decisions.
        scenario: Start state; None for the default one.
        deterministic: Models take their most likely actions instead of sampling.

    Raises:
        ConfigError: There is no such participant, or there are more participants than seats for them.
        ModelError: A model cannot be loaded.
        PluginError: The environment or an agent failed.
    """
    with closing(run.make_environment(1)) as environment:
        source = WeakenedSource(run, run.folder)
        lineup = make_lineup(environment.spec, participants, source)
        agents = make_agents([lineup], source, environment, deterministic=deterministic)
        (played,) = play_matches(environment, agents, matches=1, seed=seed, scenario=scenario)
    return MatchResult(
        outcome=tuple(played["outcome"][0].tolist()),
        ticks=int(played["ticks"][0]),
        returns=tuple(played["returns"][0].tolist()),
        participants=lineup.participants,
    )
