"""What an action server counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_RESULTS = {0.0: "lost", 0.5: "drawn", 1.0: "won"}


class ServerMetrics:
    """The counters of one server.

    Attributes:
        registry: Registry of these metrics alone.
        actions: Actions of each policy.
        action_s: Seconds from an observation to its actions, in this process.
        batch_rows: Seats that an agent decided for at once.
        matches: Matches that have ended, by ``end``: finished or void.
        results: Results of seats by policy, participant and ``result``: won, drawn, lost, or other points.
        swaps: Policies that got a newer participant.
        refresh_failures: Searches for newer participants that failed.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.actions = Counter("ludus_serve_actions", "Actions.", ["policy"], registry=registry)
        self.action_s = Histogram(
            "ludus_serve_action_seconds",
            "Seconds from the receipt of an observation to its actions.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.batch_rows = Histogram(
            "ludus_serve_batch_rows", "Seats that an agent decides for at once.", buckets=_ROWS, registry=registry
        )
        self.matches = Counter("ludus_serve_matches", "Matches that have ended.", ["end"], registry=registry)
        self.results = Counter(
            "ludus_serve_results", "Results of seats.", ["policy", "participant", "result"], registry=registry
        )
        self.swaps = Counter("ludus_serve_swaps", "Policies that got a newer model.", registry=registry)
        self.refresh_failures = Counter(
            "ludus_serve_refresh_failures", "Searches for newer models that failed.", registry=registry
        )
        for end in ("finished", "void"):
            self.matches.labels(end)  # metrics that have not occurred yet are 0

    def count_batch(self, policy: str, rows: int) -> None:
        """Count the actions of a batch."""
        self.actions.labels(policy).inc(rows)
        self.batch_rows.observe(rows)

    def count_result(self, policy: str, participant: str, points: float) -> None:
        """Count the result of a seat, given the points of its team in [0, 1]."""
        self.results.labels(policy, participant, _RESULTS.get(points, "other")).inc()
