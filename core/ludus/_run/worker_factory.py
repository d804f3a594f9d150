"""Make any worker of a run by its name."""

from __future__ import annotations

from ludus._run.context import RunContext
from ludus._run.learner_factory import make_helper, make_learner
from ludus._run.sampler_factory import make_evaluator, make_sampler
from ludus._run.service_factory import make_service_worker
from ludus.launcher import Worker, WorkerContext


def make_worker(run: RunContext, name: str, worker: WorkerContext) -> Worker:
    """Make a worker of `ludus._run.worker_plan.plan_workers`; the name starts with the kind of worker."""
    kind, _, rest = name.partition("-")
    match kind:
        case "learner":
            return make_learner(run, rest, worker)
        case "helper":
            return make_helper(run, name, worker)
        case "service":
            return make_service_worker(run, name, worker)
        case "evaluator":
            return make_evaluator(run, name, worker)
    return make_sampler(run, name, worker)
