"""Makes the workers of a run for launchers.

A launcher starts processes and calls `make_worker` in each; see `ludus.launcher`.
"""

from __future__ import annotations

from pathlib import Path

from ludus._run import worker_factories
from ludus._run.context import RunContext
from ludus._run.threads import configure_process
from ludus._run.worker_plan import inference_service
from ludus.launcher import RemoteSamplerSpec, Worker, WorkerContext, WorkerEnv, WorkerSpec, learner_name

__all__ = ["make_worker", "remote_sampler_spec"]


def make_worker(spec: WorkerSpec, env: WorkerEnv, context: WorkerContext) -> Worker:
    """Make a worker of a run in the process where it will work.

    Args:
        spec: The worker.
        env: Its environment.
        context: What the launcher provides to it.

    Raises:
        LudusError: The configuration of the run is wrong on this host, or a component fails.
    """
    configure_process(spec.threads)
    return worker_factories.make_worker(RunContext.load(env), spec.name, context)


def remote_sampler_spec(run_dir: Path) -> RemoteSamplerSpec:
    """Return the requirements of a run's samplers on this host.

    Args:
        run_dir: Folder with ``run.toml`` and, in ``models``, the frozen models; need not be the run folder.

    Raises:
        LudusError: A component of the configuration is not installed.
    """
    config = RunContext.load(WorkerEnv(run_dir=run_dir)).config
    return RemoteSamplerSpec(
        threads=config.run.sampler_threads,
        service=inference_service(config),
        learners=tuple(map(learner_name, config.players)),
        stall_s=config.run.stall_s,
        restarts=config.run.restarts,
        log_mb=config.run.log_mb,
        sampler_memory_mb=config.run.sampler_memory_mb,
        sampler_processes=config.run.sampler_processes,
    )
