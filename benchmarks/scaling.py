"""The cost of a decision as matches, samplers and opponents grow.

``python benchmarks/scaling.py [matches] [samplers] [pool]``: every sweep prints a table of CPU microseconds a decision.
All three are drawn into ``benchmarks/results/scaling.svg``; some of them are drawn where ``--svg`` says. Samplers are
swept as whole runs, from fewer than there are cores to many more: their cost is the CPU time of all processes over the
decisions that were learned from, so that it may be compared where the cores are oversubscribed. What must not happen is
growth beyond proportion.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
from ludus_bench._pieces import Setup, Source, open_setup
from ludus_bench.opponents import bench_opponents
from ludus_bench.selfplay import Shape, played
from ludus_bench.single import Settings, bench_sampling
from ludus_bench.timing import Plan, summarize

mpl.use("svg")
from matplotlib import pyplot as plt

RESULTS = Path(__file__).parent / "results"
MATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SAMPLERS = (1, 2, 4, 8, 16)
POOL = (1, 3, 10, 30, 100, 300, 1000)
WINDOW_S = 15.0
SETTINGS = Settings(plan=Plan(repeats=5, seconds=0.3, warmup_s=0.3, clock="cpu"))

Curve = dict[int, float]


def matches(setup: Setup) -> Curve:
    """Return the cost by matches of one sampler."""
    report = bench_sampling(setup, matches=MATCHES, settings=SETTINGS)
    return {count: 1e6 / figure.summary.median for count, figure in zip(MATCHES, report.figures, strict=True)}


def samplers(setup: Setup) -> Curve:
    """Return the cost by samplers of a run."""
    found = {}
    for count in SAMPLERS:
        run = played(setup.dump(**Shape(workers=count, matches=64).sections), seconds=WINDOW_S, warmup_s=5.0)
        found[count] = 1e6 * run.cores / summarize(run.per_s).median
    return found


def pool(setup: Setup) -> Curve:
    """Return the cost by frozen opponents of one sampler."""
    report = bench_opponents(setup, counts=POOL, matches=1024, rows_per_fixture=16, settings=SETTINGS)
    return {count: 1e6 / figure.summary.median for count, figure in zip(POOL, report.figures, strict=True)}


SWEEPS: dict[str, Callable[[Setup], Curve]] = {"matches": matches, "samplers": samplers, "pool": pool}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweeps named on the command line, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sweeps", nargs="*", metavar="SWEEP", help=f"default: all of {', '.join(SWEEPS)}")
    parser.add_argument("--svg", type=Path, help="where to draw; default: benchmarks/results, if all sweeps run")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.sweeps if name not in SWEEPS]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(SWEEPS)}")
    wanted = given.sweeps or list(SWEEPS)
    path = given.svg or (RESULTS / "scaling.svg" if set(wanted) == set(SWEEPS) else None)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
    setup = open_setup(Source(environment="connect4"))
    figure, axes = plt.subplots(1, len(wanted), figsize=(4 * len(wanted), 3), squeeze=False)
    for name, axis in zip(wanted, axes[0], strict=True):
        curve = SWEEPS[name](setup)
        print(f"{name:>10}  µs per decision")
        for count, cost in curve.items():
            print(f"{count:>10}  {cost:8.2f}")
        axis.plot(list(curve), list(curve.values()), marker="o")
        axis.set(xscale="log", yscale="log", xlabel=name, ylabel="CPU µs per decision")
        axis.grid(visible=True, alpha=0.3)
    if path:
        figure.tight_layout()
        figure.savefig(path)


if __name__ == "__main__":
    main()
