"""Make the recorders of matches, and the environments whose frames they record."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from ludus._replays.files import FOLDER, ReplayWriter
from ludus._replays.recorder import ReplayRecorder
from ludus._replays.stream_recorder import StreamRecorder
from ludus._run.context import RunContext
from ludus._run.factories import make_environment
from ludus.environment import Environment
from ludus.launcher import sampler_host
from ludus.rendering import draw_match, enable_rendering


def make_evaluation_environment(run: RunContext, matches: int) -> Environment:
    """Make a batch of the run's environment for rating matches; it can be drawn if their frames are recorded."""
    with ExitStack() as stack:
        if run.config.replays.evaluations and not run.spec.repeatable:
            stack.enter_context(enable_rendering())
        return make_environment(run.config.environment, matches)


def make_replay_recorder(run: RunContext, worker: str, environment: Environment, *, kind: str) -> ReplayRecorder | None:
    """Make the recorder of the matches of a worker; None if none are recorded, as on other hosts.

    Matches that cannot be played again are recorded with their frames, if they are rating matches.

    Args:
        run: The run.
        worker: Name of the worker.
        environment: The environment.
        kind: ``"train"`` or ``"eval"``, the kind of matches.
    """
    options, spec = run.config.replays, environment.spec
    share = options.training_share if kind == "train" else float(options.evaluations)
    if not share or sampler_host(worker) or (kind == "train" and not spec.repeatable):
        return None
    max_bytes = round(options.max_mb * 2**20)
    writer = ReplayWriter(run.run_dir / FOLDER, worker, max_bytes)
    streams = None if spec.repeatable else StreamRecorder(partial(draw_match, environment), max_bytes)
    return ReplayRecorder(spec, environment.num_matches, writer.write, share=share, streams=streams)
