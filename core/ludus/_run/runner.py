"""Train and resume runs, in one process or with a process for every worker."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ludus._config.run_config import dump_config, load_config
from ludus._config.section_reader import SelectedComponent
from ludus._config.sections import RunConfig
from ludus._config.toml import read_toml
from ludus._league.damage import DamageContainment
from ludus._league.league import League
from ludus._plugins.manager import Plugins
from ludus._run.check import check_run
from ludus._run.context import RunContext
from ludus._run.session import BUDGET_OPTIONS, RunResult, RunSession
from ludus._store.database import DATABASE, is_unused, wrap_database_errors
from ludus._store.durable import write_durably
from ludus._store.foreign_files import check_folder
from ludus._store.journal import describe_loss
from ludus._store.model_files import DAMAGED, wrap_file_errors
from ludus._store.store import Store
from ludus.errors import ConfigError, LudusError, RunError


def train(
    config: RunConfig,
    *,
    plugins: Plugins,
    run_dir: Path,
    print_line: Callable[[str], None],
    displays: Sequence[SelectedComponent] = (),
) -> RunResult:
    """Start a new run.

    Args:
        config: Configuration of the run.
        plugins: The installed plugins.
        run_dir: The run folder.
        print_line: Prints one line for the user; an OSError of it is ignored.
        displays: Metric sinks besides those of the configuration.

    Raises:
        RunError: The folder holds a run already, or a run.toml that differs from the configuration.
        LudusError: The run cannot go on.
    """
    path = run_dir / "run.toml"
    with _wrap_storage_errors(run_dir):
        keep_file = _check_new_run_folder(run_dir, config)
    run = RunContext(config=config, plugins=plugins, run_dir=run_dir, session=1)
    check_run(run)
    text = dump_config(config)
    meta = {"seed": config.run.seed, "environment": config.environment.name, "config": text}
    with _wrap_storage_errors(run_dir), Store.create(run_dir, meta) as store:
        if not keep_file:
            write_durably(path, text.encode())
        (run_dir / "metrics.jsonl").unlink(missing_ok=True)  # left by a failed start
        return RunSession(run, store, print_line).run(displays)


def resume(
    run_dir: Path,
    *,
    plugins: Plugins,
    print_line: Callable[[str], None],
    overrides: tuple[str, ...] = (),
    displays: Sequence[SelectedComponent] = (),
) -> RunResult:
    """Continue a run from its last committed state; arguments as for `train`.

    Raises:
        RunError: The folder holds no run, another process runs it, or its limits are reached already.
        LudusError: The run cannot go on.
    """
    path = run_dir / "run.toml"
    with _wrap_storage_errors(run_dir):
        _check_existing_run_folder(run_dir)
    with _wrap_storage_errors(run_dir), Store.open(run_dir) as store:
        if not path.exists() and store.meta("config"):  # an earlier process was killed before it wrote the file
            write_durably(path, store.meta("config").encode())
        config = load_config(path, overrides=overrides, plugins=plugins)
        number = int(store.counters().get("sessions", 0)) + 1
        run = RunContext(config=config, plugins=plugins, run_dir=run_dir, session=number)
        _contain_damage(run, store, print_line)
        check_run(run, store)
        _check_limits(run, store, overrides)
        before = path.read_bytes()
        session = RunSession(run, store, print_line)
        if overrides:  # worker processes read the file
            write_durably(path, dump_config(config).encode())
        try:
            return session.run(displays)
        except LudusError:
            if overrides and not session.started:
                write_durably(path, before)
            raise


def _check_new_run_folder(run_dir: Path, config: RunConfig) -> bool:
    """Check that a new run may use a folder.

    Returns:
        Whether the folder holds the run's configuration file, which keeps its comments.

    Raises:
        RunError: The folder holds a run, or a run.toml that differs from the configuration, or a link leads out of it.
    """
    path = run_dir / "run.toml"
    if run_dir.is_dir():
        check_folder(run_dir)
    if _holds_only_a_file(run_dir):
        if not _is_equal(path, config):
            raise RunError(
                f"{path} differs from the configuration of this run: train it as it is, without --set, --minutes or "
                f"--workers, or choose another folder with --run"
            )
        return True
    if path.exists() and not is_unused(run_dir):
        raise RunError(
            f"{run_dir} already holds a run: continue it with `ludus resume {shlex.quote(str(run_dir))}`, "
            f"or choose another folder with --run"
        )
    return False


def _check_existing_run_folder(run_dir: Path) -> None:
    """Check that a folder holds a run that has started.

    Raises:
        RunError: The folder does not.
    """
    path = run_dir / "run.toml"
    if not (path.exists() or (run_dir / DATABASE).exists()):
        start = f"start one with `ludus train FILE --run {run_dir}`"
        raise RunError(f"{run_dir} holds no run (no run.toml in it): {start}")
    if _holds_only_a_file(run_dir):
        raise RunError(f"{run_dir} holds no run yet: start it with `ludus train {path} --run {run_dir}`")


def _contain_damage(run: RunContext, store: Store, print_line: Callable[[str], None]) -> None:
    """Replace the damaged checkpoints of all players, and print what is lost."""
    if store.lost_commits:
        print_line(f"{describe_loss(store.lost_commits)}; the damaged file is in {run.run_dir / DAMAGED}")
    league = League.of(store)
    containment = DamageContainment(league, print_line)
    for player in league.players.keys() & run.config.players.keys():
        containment.check_checkpoints(player)
    store.commit()


def _check_limits(run: RunContext, store: Store, overrides: Sequence[str]) -> None:
    """Check that limits given as overrides exceed what the run has already done.

    Raises:
        RunError: They do not.
    """
    saved, elapsed_s = store.checkpoints.saved_decisions(), store.counters().get("elapsed_s", 0.0)
    decisions = sum(saved.get(player, 0) for player in run.config.players)
    limited = any(override.startswith(("run.minutes", "run.decisions")) for override in overrides)
    if limited and run.budget.exhausted(decisions=decisions, elapsed_s=elapsed_s):
        done = f"{elapsed_s / 60:.3g} minutes and {decisions:,.0f} decisions"
        raise RunError(f"{run.run_dir}: already over after {done}; nothing to do — give more with {BUDGET_OPTIONS}")


def _holds_only_a_file(run_dir: Path) -> bool:
    """Return whether a folder has a run.toml, but neither a league database nor models."""
    used = any((run_dir / name).exists() for name in (DATABASE, "models", "learners"))
    return (run_dir / "run.toml").exists() and not used


def _is_equal(path: Path, config: RunConfig) -> bool:
    """Return whether a file holds a configuration."""
    try:
        return read_toml(path) == config.data
    except ConfigError:
        return False


@contextmanager
def _wrap_storage_errors(run_dir: Path) -> Iterator[None]:
    """Wrap errors of the file system and the database in a `RunError` that suggests a fix."""
    with wrap_file_errors(run_dir), wrap_database_errors(run_dir / DATABASE):
        for path in (run_dir, *run_dir.parents):
            if path.is_file():
                raise RunError(f"{path} is a file, not a folder: choose another folder for the run")
        yield
