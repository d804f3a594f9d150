"""Lines for the user about what takes long in this process, and why nothing was learned."""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define, field

from ludus._league.coordinator import Coordinator
from ludus.launcher import learner_name
from ludus.signals import StopRequested

__all__ = ["ActivityLog", "explain_idle_learners"]

_INTERVAL_S = 15.0


@define
class ActivityLog:
    """A listener of `ludus.activity` that prints activities that take long.

    Args:
        environment: Name of the environment.
        print_line: Prints one line for the user.
        stop: Returns a true value if the process is to stop.
    """

    environment: str
    print_line: Callable[[str], None]
    stop: Callable[[], object]
    _last: tuple[str, int] = field(init=False, default=("", 0))  # activity, parts that were done
    _started_s: float = field(init=False, default=0.0)
    _printed_s: float = field(init=False, default=0.0)

    def show(self, text: str, done: int, total: int) -> None:
        """Print an activity that takes long, every 15 s.

        Raises:
            StopRequested: The process is to stop.
        """
        if self.stop():
            raise StopRequested
        now_s = time.monotonic()
        if text != self._last[0] or done <= self._last[1]:  # another activity
            self._started_s = now_s
        self._last = (text, done)
        if now_s - max(self._started_s, self._printed_s) >= _INTERVAL_S:
            self._printed_s = now_s
            faster = f"fewer sampling.matches, or more environment.{self.environment}.workers, start sooner"
            self.print_line(f"{text}: {done} of {total} — {faster}")


def explain_idle_learners(coordinator: Coordinator, learned_before: int | None) -> str:
    """Return why no player has learned in this session; empty if one has.

    Args:
        coordinator: The coordinator, after its workers have ended.
        learned_before: Decisions that the players had learned from at the start of the session; None if its limits were
            reached already.
    """
    if learned_before is None or coordinator.league.decisions > learned_before:
        return ""
    reported = coordinator.membership.metrics
    learners = {name: reported.get(learner_name(name), {}) for name in coordinator.league.players}
    received = sum(int(values.get("received", 0)) for values in learners.values())
    if received:
        return "nothing was learned: " + "; ".join(
            _explain_player(name, values) for name, values in learners.items() if "received" in values
        )
    settings = "fewer sampling.matches, more environment.*.workers or a longer limit"
    return (
        "nothing was learned: no player has received a decision before the end; starting workers and matches, or a "
        f"match until its first segment is full, took too long — expected {settings}"
    )


def _explain_player(name: str, values: dict[str, float]) -> str:
    received, batch = values["received"], values["batch_decisions"]
    text = f"{name!r} has received {received:,.0f} decisions, and an update takes {batch:,.0f}"
    dropped = {key: count for key, count in values.items() if key.startswith("dropped_") and count}
    if dropped:
        text += " (" + ", ".join(f"{key} {count:,.0f}" for key, count in dropped.items()) + ")"
    return f"{text} — a smaller batch_decisions of its algorithm, or a longer limit, lets it learn"
