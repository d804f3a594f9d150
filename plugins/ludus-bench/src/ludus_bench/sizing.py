"""How many processes and threads suit a number of cores, before anything is measured. Imports nothing heavy."""

from __future__ import annotations

import math

from attrs import frozen

__all__ = ["Sizing", "suggest"]

#: Share of the cores that learners get on a CPU: a gradient step costs about twice a decision or a little more, and
#: every process that shares a core with another one waits for it.
_LEARNING = 0.5
_MATCHES = 256  # beyond, decisions get hardly cheaper and segments only older


@frozen(kw_only=True)
class Sizing:
    """How a run spreads over the cores of one machine.

    Args:
        workers: Sampler processes (``run.workers``).
        sampler_threads: Threads of each (``run.sampler_threads``).
        learner_threads: Threads of each learner (``run.learner_threads``).
        matches: Matches that each sampler steps at once (``sampling.matches``).
    """

    workers: int
    sampler_threads: int
    learner_threads: int
    matches: int

    def threads(self, players: int) -> int:
        """Return how many threads compute in the whole run with so many players."""
        return self.workers * self.sampler_threads + players * self.learner_threads


def suggest(cores: float, *, players: int = 1, accelerator: bool = False) -> Sizing:
    """Return defaults for a machine.

    Samplers take one thread each: more of them share no memory bandwidth with each other's forward passes and start
    no thread pools. Learners share the rest evenly. With an accelerator a learner needs one core, to feed it.

    Args:
        cores: What all processes together may use; ≥ 0.
        players: Learners in the run; ≥ 1.
        accelerator: Whether learners compute on a GPU.
    """
    whole = max(1, math.floor(cores))
    wanted = players if accelerator else max(players, round(whole * _LEARNING))
    workers = max(1, whole - wanted)
    threads = 1 if accelerator else max(1, (whole - workers) // players)
    return Sizing(workers=workers, sampler_threads=1, learner_threads=threads, matches=_MATCHES)
