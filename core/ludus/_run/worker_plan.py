"""Which workers a run has, and how many threads each of them gets."""

from __future__ import annotations

from ludus._config.sections import RunConfig
from ludus.launcher import WorkerSpec, helper_name, learner_name


def service_name(component: str) -> str:
    """Return the worker name of a component's service."""
    return f"service-{component}"


def inference_service(config: RunConfig) -> str:
    """Return the worker name of the run's inference service; empty if it has none."""
    inference = config.inference
    if config.run.workers == 0 or inference is None or inference.component.service is None:
        return ""
    return service_name(inference.name)


def count_samplers(config: RunConfig, cores: float) -> int:
    """Return the number of sampler processes: as configured, or the cores that learners leave.

    Learners get half of the cores, or one core each if they compute on another device.
    """
    run, learners = config.run, config.learner_processes
    if run.workers is not None:
        return run.workers
    reserved = max(learners, round(int(cores) / 2)) if run.device == "cpu" else learners
    return max(1, (int(cores) - reserved - bool(inference_service(config))) // run.sampler_threads)


def plan_workers(config: RunConfig, cores: float, *, num_teams: int = 2) -> list[WorkerSpec]:
    """Return the workers of a run in the order in which they are started.

    Args:
        config: The run's configuration.
        cores: Number of processor cores that all workers share.
        num_teams: Number of teams of a match; a game of one team has no rating matches.
    """
    run, service = config.run, inference_service(config)
    samplers = count_samplers(config, cores)
    learner_cores = int(cores) - (samplers + bool(service)) * run.sampler_threads
    threads = run.learner_threads or max(1, learner_cores // config.learner_processes)
    workers = [WorkerSpec(learner_name(player), threads) for player in config.players]
    workers += [
        WorkerSpec(helper_name(name, rank), threads)
        for name, player in config.players.items()
        for rank in range(1, player.learner_processes if run.workers != 0 else 1)
    ]
    if service:
        workers.append(WorkerSpec(service, run.sampler_threads))
    workers += [WorkerSpec(f"sampler-{i}", run.sampler_threads) for i in range(max(samplers, 1))]
    if config.evaluation.enabled and num_teams > 1:
        workers.append(WorkerSpec("evaluator-0", 1))
    return workers
