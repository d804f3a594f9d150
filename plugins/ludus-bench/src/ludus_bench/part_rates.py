"""Environment, policy and trainer of a configuration, measured in turns on one core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from statistics import median

from attrs import evolve, frozen

from ludus_bench._setup import Setup
from ludus_bench.limits import gemm_limit, gemm_tasks, harmonic
from ludus_bench.parts import PolicyPart, TrainerPart, rows_of
from ludus_bench.random_play import RandomPlay
from ludus_bench.report import Figure, Limit, rate_figure
from ludus_bench.timing import Clock, Plan, Rate, Stopwatch, Task, measure

__all__ = ["PartRates", "SelfplayParts"]


@frozen(kw_only=True)
class PartRates:
    """Decisions per second and core of every part of self-play.

    Args:
        environment: Rate of the environment.
        forward: Rate of the policy.
        update: Rate of the trainer; per GPU, if it computes on one.
        rows: Seats that act at once.
        minibatch: Rows of one gradient step.
        limits: Limits of ``"forward"`` and ``"update"``: their matrix products alone.
    """

    environment: Rate
    forward: Rate
    update: Rate
    rows: int
    minibatch: int
    limits: Mapping[str, Limit | None]

    @classmethod
    def join(cls, turns: Sequence[PartRates]) -> PartRates:
        """Return the rates of several turns as one measurement."""

        def limit(name: str) -> Limit | None:
            limits = [limit for rates in turns if (limit := rates.limits[name])]
            return evolve(limits[0], value=median(limit.value for limit in limits)) if limits else None

        return evolve(
            turns[0],
            environment=Rate.join([rates.environment for rates in turns]),
            forward=Rate.join([rates.forward for rates in turns]),
            update=Rate.join([rates.update for rates in turns]),
            limits={name: limit(name) for name in turns[0].limits},
        )

    def limit_per_s(self, cores: float, *, gpus: int = 0) -> float:
        """Return the decisions per second that a machine can play and learn from at most.

        Args:
            cores: Cores that play, and learn or keep GPUs busy.
            gpus: GPUs that learn; 0: the cores learn.
        """
        limit = cores * harmonic(self.environment.median, self.forward.median, self.update.median)
        return min(limit, gpus * self.update.median) if gpus else limit

    def values(self) -> dict[str, float]:
        """Return the medians by name."""
        return {
            "env_per_s": self.environment.median,
            "forward_per_s": self.forward.median,
            "update_per_s": self.update.median,
        }

    def figures(self) -> tuple[Figure, ...]:
        """Return one figure for each part."""
        at, at_update = {"rows": self.rows}, {"rows": self.minibatch}
        return (
            rate_figure("env_per_s", self.environment, at=at),
            rate_figure("forward_per_s", self.forward, at=at, limit=self.limits["forward"]),
            rate_figure("update_per_s", self.update, at=at_update, limit=self.limits["update"]),
        )


class SelfplayParts:
    """The parts of one configuration, each on the batch size of a run.

    Args:
        setup: Configuration to measure; the trainer computes on its device.
        matches: Matches of one sampler.
        clock: Clock of the plan.
    """

    def __init__(self, setup: Setup, *, matches: int, clock: Clock) -> None:
        self._play = RandomPlay(setup.environment(matches), Stopwatch(clock))
        self._rows = self._play.mean_acting_seats()
        player = setup.make_player(device=setup.device)
        plain = setup.make_player(device=setup.device, plain=True)
        decisions = player.trainer.batch_decisions
        with closing(setup.sampler(matches=matches)) as sampler:
            recorded = sampler.record(decisions, skip=decisions)
        policy = PolicyPart(player=player, rows=rows_of(recorded, self._rows))
        trainer = TrainerPart.prepare(player, recorded)
        self._minibatch = trainer.minibatch
        forward_gemms = evolve(policy, player=plain).gemms()
        update_gemms = TrainerPart.prepare(plain, recorded).gemms()
        self._tasks: dict[str, Task] = {
            "env": self._play.step,
            "forward": policy.act,
            "update": trainer.update,
            **gemm_tasks(forward_gemms, policy.num_rows, prefix="forward "),
            **gemm_tasks(update_gemms, trainer.decisions, device=setup.device, prefix="update "),
        }

    def close(self) -> None:
        """Close the environment."""
        self._play.close()

    def measure(self, plan: Plan) -> PartRates:
        """Measure all parts in turns, with the current number of threads."""
        rates = measure(self._tasks, plan, stopwatches={"env": self._play.stopwatch})
        return PartRates(
            environment=rates["env inside"].scaled(self._play.decisions_per_tick),
            forward=rates["forward"],
            update=rates["update"],
            rows=self._rows,
            minibatch=self._minibatch,
            limits={name: gemm_limit(rates, prefix=f"{name} ") for name in ("forward", "update")},
        )
