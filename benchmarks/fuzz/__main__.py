"""Command line of the fuzzers."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from fuzz.campaign import ENGINES, Campaign
from fuzz.examples import kinds
from fuzz.replay import replay
from fuzz.table import table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz",
        description="Send hostile messages of every kind to the workers of a run, and check that none does harm.",
    )
    parser.add_argument("inputs", type=int, nargs="?", default=100_000, help="inputs per kind of message and fuzzer")
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs")
    parser.add_argument("--engine", choices=(*ENGINES, "both"), default="both", help="use only this fuzzer")
    parser.add_argument("--kinds", nargs="+", metavar="KIND", help="only these kinds of messages")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--out", type=Path, help="folder for reports and the inputs of findings")
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="deliver the input of a finding instead, by --kinds"
    )
    return parser


def _engines(chosen: str) -> list[str]:
    """Return the fuzzers to use; print a line for one that is not there."""
    engines = [engine for engine in ENGINES if chosen in {engine, "both"}]
    if "atheris" in engines and find_spec("atheris") is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        print(f"atheris is not installed (Python {version} may have no wheel): only hypothesis is used", flush=True)
        engines.remove("atheris")
    return engines


def main() -> int:
    """Run the campaign, print its table, and return 1 if there is a finding."""
    parser = _parser()
    options = parser.parse_args()
    known = kinds()
    chosen = options.kinds or known
    if unknown := sorted(set(chosen) - set(known)):
        parser.error(f"unknown kinds {', '.join(unknown)}; there are {', '.join(known)}")
    if options.replay is not None:
        return replay(chosen[0], options.replay)
    campaign = Campaign(
        out=options.out or Path(tempfile.mkdtemp(prefix="ludus-fuzz-findings-")),
        count=options.inputs,
        seed=options.seed,
        jobs=options.jobs,
        print_line=lambda line: print(line, flush=True),
    )
    campaign.run(chosen, _engines(options.engine))
    print(table(campaign.reports))
    return 0 if campaign.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
