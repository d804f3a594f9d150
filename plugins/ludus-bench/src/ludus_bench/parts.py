"""The three parts of self-play that compute, each as a piece of work to be measured: environment, policy, trainer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import torch
from attrs import define, evolve, field, frozen
from ludus.algorithm import PolicyInput, UpdateResult
from ludus.errors import ConfigError
from ludus.segment import SegmentBatch

from ludus_bench._pieces import Learned, Setup
from ludus_bench.gemm import Gemm, numpy_work, torch_work, trace_gemms
from ludus_bench.play import RandomPlay
from ludus_bench.report import Figure, Limit, figure_of
from ludus_bench.timing import Clock, Plan, Rate, Stopwatch, measure

if TYPE_CHECKING:
    from ludus.network import NetworkRequest

__all__ = [
    "AS_PLAYED",
    "Acting",
    "EnvironmentAlone",
    "Rates",
    "Updating",
    "all_different",
    "as_played",
    "gemm_limit",
    "gemm_works",
    "harmonic",
    "rate_parts",
    "rows_of",
]


#: Follows the names of figures for which equal decisions need not all be computed.
AS_PLAYED = ", as played"


def harmonic(*rates: float) -> float:
    """Return the rate of works done one after another for every unit: ``1 / (1/a + 1/b + …)``."""
    return 1.0 / sum(1.0 / rate for rate in rates)


@define
class EnvironmentAlone:
    """An environment with random moves; only what happens inside it counts.

    Args:
        play: The matches.
    """

    play: RandomPlay

    @classmethod
    def of(cls, setup: Setup, matches: int, clock: Clock) -> EnvironmentAlone:
        """Make so many matches of a configuration's environment."""
        return cls(RandomPlay(setup.environment(matches), Stopwatch(clock)))

    def rows_at_once(self) -> int:
        """Return how many seats act on a tick, by playing a few."""
        ticks, decisions = self.play.ticks, self.play.decisions
        for _ in range(9):
            self.play.step()
        steps = (self.play.ticks - ticks) / self.play.environment.num_matches
        return max(1, round((self.play.decisions - decisions) / steps))

    def close(self) -> None:
        """Close the environment."""
        self.play.environment.close()


@frozen(kw_only=True)
class Acting:
    """The way from what seats see to what they do.

    Args:
        learned: The player.
        batches: What is decided at once, each arrays ``[n, …]`` by flat name, see `rows_of`.
        renewed: Numbers of batches before which the weights are loaded again, as in a run between segments.
        rng: For sampling actions.
    """

    learned: Learned
    batches: Sequence[Mapping[str, np.ndarray]]
    renewed: Collection[int] = ()
    rng: np.random.Generator = field(factory=lambda: np.random.default_rng(0))

    @property
    def count(self) -> int:
        """Return how many decisions a work is."""
        return sum(map(_count, self.batches))

    def work(self) -> float:
        """Decide once for all rows."""
        policy, weights = self.learned.policy, self.learned.trainer.weights() if self.renewed else {}
        for number, rows in enumerate(self.batches):
            if number in self.renewed:
                policy.load(weights)
            policy.act(
                PolicyInput(
                    _group(rows, "observation"),
                    action_mask=rows.get("action_mask"),
                    privileged=_group(rows, "privileged"),
                    state=policy.initial_state(_count(rows)),
                ),
                rng=self.rng,
            )
        return float(self.count)

    def gemms(self) -> list[Gemm]:
        """Return the matrix products of deciding once; of a plain policy they are all seen, see `Setup.learned`."""
        return trace_gemms(self.work)

    def inputs(self, request: NetworkRequest, device: torch.device | str) -> tuple[dict[str, torch.Tensor], ...]:
        """Return the observation, the privileged leaves and the state of the first batch as a network reads them."""
        rows = self.batches[0]
        groups = (
            {name: rows[f"observation/{name}"] for name in request.observation},
            {name: rows[f"privileged/{name}"] for name in request.privileged},
            self.learned.policy.initial_state(_count(rows)),
        )
        return tuple({name: torch.from_numpy(a).to(device) for name, a in leaves.items()} for leaves in groups)


def _count(rows: Mapping[str, np.ndarray]) -> int:
    return len(next(iter(rows.values())))


#: Of a trainer that fills a memory before it learns.
_MOST_UPDATES = 1_000


@frozen(kw_only=True)
class Updating:
    """What a learner does with one batch.

    Args:
        learned: The player.
        batch: About as many decisions as the trainer wants.
        first: What the first update came to that learned from anything.
    """

    learned: Learned
    batch: SegmentBatch
    first: UpdateResult

    @classmethod
    def of(cls, learned: Learned, recorded: Sequence[SegmentBatch]) -> Updating:
        """Take one batch from recorded segments and update by it until the trainer learns.

        Raises:
            ConfigError: It has not after a thousand updates.
        """
        batch = SegmentBatch.concatenate(list(recorded)).split(learned.trainer.batch_decisions)[0]
        for _ in range(_MOST_UPDATES):
            result = learned.trainer.update(batch, progress=0.0)
            if result.samples:
                return cls(learned=learned, batch=batch, first=result)
        raise ConfigError(
            f"player {learned.player!r}: the first {_MOST_UPDATES:,} updates, with {batch.num_decisions:,} decisions "
            f"each, learned nothing — let the algorithm begin to learn earlier, or with larger batches"
        )

    @property
    def decisions(self) -> int:
        """Return how many decisions the batch holds."""
        return self.batch.num_decisions

    def work(self) -> float:
        """Make one update and return how many decisions it consumed."""
        self.learned.trainer.update(self.batch, progress=0.0)
        return float(self.decisions)

    @property
    def samples_per_decision(self) -> float:
        """Return how many samples an update trains on for every decision of the batch."""
        return self.first.samples / self.decisions

    @property
    def minibatch(self) -> int:
        """Return the samples of one gradient step."""
        return round(self.first.samples / max(1, self.first.gradient_steps))

    def gemms(self) -> list[Gemm]:
        """Return the matrix products of one update; of a plain trainer they are all seen, see `Setup.learned`."""
        return trace_gemms(self.work)


def gemm_works(
    gemms: Sequence[Gemm], units: float, *, device: str = "cpu", prefix: str = ""
) -> dict[str, Callable[[], float]]:
    """Return works that make only these products, by name of the library; none where there are no products.

    Args:
        gemms: What to multiply.
        units: What one round counts.
        device: Where torch multiplies; numpy multiplies on the CPU only.
        prefix: Begins the names of the works.
    """
    if not gemms:
        return {}
    if device == "cpu":
        works = {"numpy": numpy_work(gemms, units), "torch": torch_work(gemms, units)}
    else:
        works = {
            "torch": torch_work(gemms, units, device=device),
            "torch, bfloat16": torch_work(gemms, units, device=device, dtype=torch.bfloat16),
        }
    return {f"{prefix}{_PRODUCTS}{name}": work for name, work in works.items()}


_PRODUCTS = "products in "


def gemm_limit(rates: Mapping[str, Rate], *, scale: float = 1.0, prefix: str = "") -> Limit | None:
    """Return the fastest library's rate as a limit, None where nothing was multiplied.

    Args:
        rates: Results of `measure`, among which those of `gemm_works`.
        scale: Multiplies the rate.
        prefix: That `gemm_works` was given.
    """
    start = f"{prefix}{_PRODUCTS}"
    known = {name: rate.median for name, rate in rates.items() if name.startswith(start)}
    if not known:
        return None
    best = max(known, key=lambda name: known[name])
    return Limit(value=scale * known[best], of=f"the matrix products alone, in {best.removeprefix(start)}")


def _group(rows: Mapping[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    prefix = f"{group}/"
    return {name.removeprefix(prefix): array for name, array in rows.items() if name.startswith(prefix)}


#: Elements of an observation by which it is made to differ from the others.
_MOST_DEALT = 1024


@frozen(kw_only=True)
class Computing:
    """Decisions per second and core of what computes; of the trainer per GPU, where it computes on one.

    Args:
        forward: Of the policy, tick by tick; see `as_played`.
        update: Of the trainer.
    """

    forward: Rate
    update: Rate

    @classmethod
    def joined(cls, several: Sequence[Computing]) -> Computing:
        """Return several measurements of the same, one after another, as one."""
        return cls(
            forward=Rate.joined([rates.forward for rates in several]),
            update=Rate.joined([rates.update for rates in several]),
        )

    def values(self) -> dict[str, float]:
        """Return the medians by name."""
        return {"forward_per_s": self.forward.median, "update_per_s": self.update.median}


@frozen(kw_only=True)
class Rates:
    """Decisions per second and core of every part.

    Args:
        env: Inside the environment.
        each: Of decisions that are all different, so that each is computed.
        played: Of decisions as they were played, among which some are equal and need not be.
        rows: Of seats that act at once.
        minibatch: Rows of one gradient step.
        limits: Of forward and update where each is computed: their matrix products alone.
    """

    env: float
    each: Computing
    played: Computing
    rows: int
    minibatch: int
    limits: Mapping[str, Limit | None]

    @classmethod
    def joined(cls, several: Sequence[Rates]) -> Rates:
        """Return several measurements of the same, one after another, as one."""

        def limit(name: str) -> Limit | None:
            found = [limit for rates in several if (limit := rates.limits[name])]
            return Limit(value=median(limit.value for limit in found), of=found[0].of) if found else None

        return evolve(
            several[0],
            env=median(rates.env for rates in several),
            each=Computing.joined([rates.each for rates in several]),
            played=Computing.joined([rates.played for rates in several]),
            limits={name: limit(name) for name in several[0].limits},
        )

    def selfplay(self, cores: float, *, gpus: int = 0, as_played: bool = False) -> float:
        """Return the most decisions per second that a machine can play and learn from.

        Args:
            cores: That play, and learn or keep GPUs busy.
            gpus: That learn; 0: the cores do.
            as_played: Equal decisions need not all be computed.
        """
        computing = self.played if as_played else self.each
        most = cores * harmonic(self.env, computing.forward.median, computing.update.median)
        return min(most, gpus * computing.update.median) if gpus else most

    def figures(self) -> tuple[Figure, ...]:
        """Return the rates as figures of their own."""
        rows, minibatch = {"rows": self.rows}, {"rows": self.minibatch}
        return (
            figure_of("env_per_s", Rate(per_s=(self.env,), cores=1.0), at=rows),
            figure_of("forward_per_s", self.each.forward, at=rows, limit=self.limits["forward"]),
            figure_of("update_per_s", self.each.update, at=minibatch, limit=self.limits["update"]),
            figure_of(f"forward_per_s{AS_PLAYED}", self.played.forward, at=rows),
            figure_of(f"update_per_s{AS_PLAYED}", self.played.update, at=minibatch),
        )


def rate_parts(setup: Setup, *, matches: int, plan: Plan) -> Rates:
    """Measure the three parts of a configuration in turns, on the threads that are set; updates where it has them.

    Args:
        setup: The configuration.
        matches: Matches at once.
        plan: How long.
    """
    learned, plain = setup.learned(device=setup.device), setup.learned(device=setup.device, plain=True)
    with closing(setup.sampling(matches=matches)) as sampling:
        wanted = learned.trainer.batch_decisions
        recorded = sampling.record(wanted, after=wanted)
    different = all_different(recorded)
    with closing(EnvironmentAlone.of(setup, matches, plan.clock)) as alone:
        rows = alone.rows_at_once()
        acting, acting_played = as_played(learned, different, rows), as_played(learned, recorded, rows)
        updating, updating_played = Updating.of(learned, different), Updating.of(learned, recorded)
        works = {
            "env": alone.play.step,
            "forward": acting.work,
            "update": updating.work,
            f"forward{AS_PLAYED}": acting_played.work,
            f"update{AS_PLAYED}": updating_played.work,
            **gemm_works(evolve(acting, learned=plain).gemms(), acting.count, prefix="forward "),
            **gemm_works(
                Updating.of(plain, different).gemms(), updating.decisions, device=setup.device, prefix="update "
            ),
        }
        rates = measure(works, plan, inside={"env": alone.play.inside})
        return Rates(
            env=rates["env inside"].median * alone.play.decisions_per_tick,
            each=Computing(forward=rates["forward"], update=rates["update"]),
            played=Computing(forward=rates[f"forward{AS_PLAYED}"], update=rates[f"update{AS_PLAYED}"]),
            rows=rows,
            minibatch=updating.minibatch,
            limits={name: gemm_limit(rates, prefix=f"{name} ") for name in ("forward", "update")},
        )


def all_different(recorded: Sequence[SegmentBatch]) -> list[SegmentBatch]:
    """Return segments with observations of which hardly any two are equal.

    Every element of an observation, or many in large ones, has the values that it had, dealt anew among the decisions
    of a block: so they are values that a network knows, and what it computes from them costs the same.

    Args:
        recorded: Segments, by blocks as they were played.
    """
    rng = np.random.default_rng(0)

    def dealt(leaves: Mapping[str, np.ndarray], decisions: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        found = {name: leaf.copy() for name, leaf in leaves.items()}
        entries, columns = (numbers[:, None] for numbers in decisions)
        for leaf in found.values():
            flat = leaf.reshape(*leaf.shape[:2], -1)
            elements = rng.permutation(flat.shape[2])[:_MOST_DEALT]
            flat[entries, columns, elements] = rng.permuted(flat[entries, columns, elements], axis=0)
        return found

    return [
        evolve(
            block,
            observation=dealt(block.observation, block.trainable().nonzero()),
            privileged=dealt(block.privileged, block.trainable().nonzero()),
        )
        for block in recorded
    ]


def as_played(learned: Learned, recorded: Sequence[SegmentBatch], rows: int) -> Acting:
    """Return the decisions of segments in the order in which they were made, with new weights after every segment.

    Where a policy remembers what it was asked, that says how often it is asked the same, as in a run.

    Args:
        learned: The player.
        recorded: Segments, by blocks as they were played.
        rows: Decisions at once.
    """
    batches: list[Mapping[str, np.ndarray]] = []
    renewed = set()
    for block in recorded:
        ticks = max(1, block.num_decisions // rows)
        every = rows_of([block], ticks * rows)
        renewed.add(len(batches))
        batches += [{name: array[i * rows : (i + 1) * rows] for name, array in every.items()} for i in range(ticks)]
    return Acting(learned=learned, batches=batches, renewed=renewed)


def rows_of(batches: Iterable[SegmentBatch], rows: int) -> dict[str, np.ndarray]:
    """Return the first so many decisions of segments, repeated where there are fewer.

    Args:
        batches: Recorded segments.
        rows: n.

    Returns:
        Arrays ``[n, …]`` by their flat names in `SegmentBatch.arrays`.
    """
    batch = SegmentBatch.concatenate(list(batches))
    entries, columns = np.nonzero(batch.trainable())
    chosen = np.arange(rows) % entries.size
    single = {"length", "version"}
    return {
        name: np.ascontiguousarray(array[entries[chosen], columns[chosen]])
        for name, array in batch.arrays().items()
        if name not in single and not name.startswith("initial_state/")
    }
