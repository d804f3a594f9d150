"""The pages ``/health`` and ``/metrics`` of an action server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ludus.errors import ConfigError
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ludus_remote.action_server import ActionServer

#: Seconds without a turn after which a server counts as hanging.
HANGING_S = 5.0


def read_health(server: ActionServer) -> dict[str, Any]:
    """Return the state of a server as JSON values; ``status`` is ``ok``, ``loading``, ``draining`` or ``hanging``."""
    status = "ok" if server.drain_until_s is None else "draining"
    if time.monotonic() - server.turn_s > HANGING_S:
        status = "loading" if server.is_loading else "hanging"
    return {
        "status": status,
        "games": len(server.gateway.games),
        "matches": server.num_running,
        "policies": {name: policy.participant for name, policy in server.policies.current.items()},
    }


class _GatewayCollector:
    """Metrics that are read when they are requested."""

    def __init__(self, server: ActionServer) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        server, health = self._server, read_health(self._server)
        yield GaugeMetricFamily("ludus_serve_games", "Games that have joined.", value=health["games"])
        yield GaugeMetricFamily("ludus_serve_running_matches", "Running matches.", value=health["matches"])
        yield GaugeMetricFamily(
            "ludus_serve_draining", "1 while the server drains.", value=health["status"] == "draining"
        )
        errors = CounterMetricFamily("ludus_serve_errors", "Connections that an error ended.", labels=["code"])
        for code, count in list(server.gateway.errors.items()):
            errors.add_metric([code], count)
        yield errors
        served = GaugeMetricFamily(
            "ludus_serve_policy", "1 for every policy and its participant.", labels=["policy", "participant"]
        )
        for name, participant in health["policies"].items():
            served.add_metric([name, participant], 1)
        yield served


@contextmanager
def serve_status(server: ActionServer, host: str, port: int) -> Iterator[int]:
    """Serve the pages in a thread while the block runs; the value is the port.

    Args:
        server: The server.
        host: Address.
        port: Port; 0: any.

    Raises:
        ConfigError: The address is wrong or in use.
    """
    server.metrics.registry.register(_GatewayCollector(server))

    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0  # of a client that sends nothing

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(server.metrics.registry))
            elif self.path == "/health":
                health = read_health(server)
                status = 200 if health["status"] in ("ok", "loading") else 503
                self._answer(status, "application/json", f"{json.dumps(health)}\n".encode())
            else:
                self._answer(404, "text/plain", b"expected /health or /metrics\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Do not log requests."""

    try:
        pages = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise ConfigError(f"--status: cannot listen on {host} port {port}: {error.strerror or error}") from error
    thread = threading.Thread(target=pages.serve_forever, name="server-status", daemon=True)
    thread.start()
    try:
        yield int(pages.server_address[1])
    finally:
        pages.shutdown()
        pages.server_close()
