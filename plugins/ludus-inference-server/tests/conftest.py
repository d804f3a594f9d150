"""A server in a thread, and its clients."""

from __future__ import annotations

import shutil
import threading
from contextlib import ExitStack

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.network import NetworkRequest, get_weights
from ludus.service import Network, ServiceEndpoint
from ludus_inference_server.client import make_client
from ludus_inference_server.config import ServerConfig
from ludus_inference_server.worker import InferenceService
from ludus_local.memory import shared_path
from ludus_local.transport import private_ipc_dir
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp

REQUEST = NetworkRequest(
    observation={"board": spaces.Box(-1, 1, (7,), np.float32), "turn": spaces.Discrete(3)},
    privileged={"hidden": spaces.Box(-1, 1, (4,), np.float32)},
    heads={"policy": 5},
    critic_heads={"value": 1},
)


def make_network(seed=0):
    """Return a small network with weights of its own."""
    torch.manual_seed(seed)
    return Network(make_mlp(MLPConfig(hidden=(16, 16), separate_critic=True), request=REQUEST), REQUEST)


def make_rows(n, seed=0):
    """Return n rows of observations and privileged leaves."""
    rng = np.random.default_rng(seed)
    observation = {"board": rng.normal(size=(n, 7)).astype(np.float32), "turn": rng.integers(0, 3, n)}
    return observation, {"hidden": rng.normal(size=(n, 4)).astype(np.float32)}


class Office:
    """A private folder with a server that can be killed and restarted, and its clients."""

    def __init__(self, stack, networks, **options):
        self.stack, self.networks = stack, networks
        self.config = ServerConfig(**options)
        self.sockets = private_ipc_dir()
        for folder in (self.sockets, shared_path(self.sockets)):
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        self.name = "service-server"
        self.thread, self.service, self.failed = None, None, []
        stack.callback(self.kill)

    def start(self):
        """Start a server without the state of an earlier one."""
        ready, self.end = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._serve, args=(ready, self.end), daemon=True)
        self.thread.start()
        assert ready.wait(20)

    def _serve(self, ready, end):
        self.service = service = InferenceService(
            self.config, name=self.name, sockets=self.sockets, networks=self.networks
        )
        ready.set()
        while not end.is_set():
            service.work()
        service.close()

    def kill(self):
        """End the server without a message."""
        if self.thread is not None:
            self.end.set()
            self.thread.join(20)
            self.thread = None

    def runtime(self, network=None, *, worker="sampler-0", player="main"):
        """Return a client of the server."""
        module, request = network or make_network()
        site = ServiceEndpoint(worker=worker, player=player, sockets=self.sockets, service=self.name)
        made = make_client(self.config, module=module, request=request, site=site)
        self.stack.callback(made.close)
        return made

    @property
    def counts(self):
        """Return the counters of the server."""
        return self.service._server.counts


@pytest.fixture
def office():
    """Return a maker of offices with a running server."""
    with ExitStack() as stack:

        def make(networks=None, **options):
            made = Office(stack, networks or {"main": lambda: [make_network()]}, **options)
            made.start()
            return made

        yield make


@pytest.fixture
def weights():
    """Return the weights of the network of a seed."""
    return lambda seed: get_weights(make_network(seed).module)


@pytest.fixture
def mlp():
    """Return a maker of small networks."""
    return make_network


@pytest.fixture
def rows():
    """Return a maker of rows for them."""
    return make_rows
