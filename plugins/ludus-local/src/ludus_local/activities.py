"""What workers are busy with while they cannot answer, and the line that explains it to the user."""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define, field
from ludus.activity import UPDATING
from ludus.wire import Activity

_PLAYING = ("sampler-", "evaluator-")


@define
class _Reported:
    """The last activity of a worker.

    Attributes:
        activity: The activity.
        since_s: Time of the first report without another message in between.
        last_s: Time of the last report.
    """

    activity: Activity
    since_s: float
    last_s: float


@define
class Activities:
    """The activities of all workers.

    Args:
        stall_s: Limit of the silence of a worker.
        print_line: Prints one line for the user.
    """

    stall_s: float
    print_line: Callable[[str], None]
    _reported: dict[str, _Reported] = field(init=False, factory=dict)
    _has_explained: bool = field(init=False, default=False)

    def record(self, worker: str, activity: Activity, *, last_seen_s: float) -> None:
        """Record what a worker is busy with until its next message.

        Args:
            worker: Name of the worker.
            activity: What it reports.
            last_seen_s: Time of its start, or of its last other message if that is later.
        """
        now_s = time.monotonic()
        since_s = self._reported[worker].since_s if self.is_busy(worker, last_seen_s=last_seen_s) else now_s
        self._reported[worker] = _Reported(activity, since_s, now_s)

    def is_busy(self, worker: str, *, last_seen_s: float) -> bool:
        """Return whether the last message of a worker was an activity that may take long between two reports.

        A gradient step may not: a helper reports one after the other, and gets no more time than for other messages.
        """
        is_last = self.reported_s(worker) > last_seen_s
        return is_last and self._reported[worker].activity.text != UPDATING

    def reported_s(self, worker: str) -> float:
        """Return when a worker last reported an activity; 0 if it never did."""
        return self._reported[worker].last_s if worker in self._reported else 0.0

    def explain_if_slow(self, worker: str, *, last_seen_s: float) -> None:
        """Explain an activity that has taken half of the limit of a silence."""
        busy = self.is_busy(worker, last_seen_s=last_seen_s)
        if busy and time.monotonic() - self._reported[worker].since_s > self.stall_s / 2:
            self.explain(worker, last_seen_s=last_seen_s)

    def explain(self, worker: str, *, last_seen_s: float) -> None:
        """Print once what takes a worker that plays so long, and which options change that."""
        if self._has_explained or not worker.startswith(_PLAYING):
            return
        self._has_explained = True
        if not self.is_busy(worker, last_seen_s=last_seen_s):
            silent = f"{worker}: no message for {self.stall_s:.0f} s"
            self.print_line(f"{silent}; raise run.stall_s if one step of its game takes so long")
            return
        reported = self._reported[worker]
        activity, took_s = reported.activity, time.monotonic() - reported.since_s
        self.print_line(
            f"{worker}: {activity.text} takes long, {activity.done} of {activity.total} in {took_s:.0f} s — fewer "
            f"sampling.matches start sooner, environment.*.workers start side by side; without progress for minutes, "
            f"and for run.stall_s, it is killed"
        )
