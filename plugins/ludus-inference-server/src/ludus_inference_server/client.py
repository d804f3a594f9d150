"""The runtime ``server``: the inference server evaluates networks in another process."""

from __future__ import annotations

import itertools
import logging
import os
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import numpy as np
import zmq
from attrs import evolve
from ludus.environment import Leaves
from ludus.errors import ContractError, WireError
from ludus.inference import Inference, Outputs, Span
from ludus.network import NetworkRequest, check_shapes, get_weights
from ludus.service import Network, ServiceEndpoint
from ludus_local.memory import ArraySpec, Layout, SharedFile, SharedFolder
from torch import nn

from ludus_inference_server import protocol
from ludus_inference_server.config import ServerConfig
from ludus_inference_server.models import content_key
from ludus_inference_server.runtimes import make_runtime
from ludus_inference_server.server import architecture_key

T = TypeVar("T", protocol.ClientRegistered, protocol.ModelStatus, protocol.EvaluateResult)

_RETRY_MS = 500  # without an answer a request is sent again
_LINGER_MS = 100
_numbers = itertools.count()  # of the runtimes of this process
_log = logging.getLogger("ludus.inference")


class _UnknownClientError(Exception):
    """The server does not know this client."""


class RemoteInference:
    """Evaluates a network in the server's process; see `ludus.inference.Inference`.

    Models are assigned right before an evaluation needs them, so that a restarted server gets them again.

    Args:
        network: The network.
        site: Address of the server.
        folder: Shared memory of this client.
    """

    def __init__(self, network: Network, *, site: ServiceEndpoint, folder: SharedFolder) -> None:
        self._site, self._folder = site, folder
        self._architecture = architecture_key(network)
        self._shapes = {name: tuple(tensor.shape) for name, tensor in network.module.state_dict().items()}
        self._models: dict[int, dict[str, np.ndarray]] = {}
        self._keys: dict[int, str] = {}
        self._sent_keys: dict[int, str] = {}  # that the server has assigned
        self._specs: dict[str, ArraySpec] = {}
        self._rows = 0
        self._area: SharedFile | None = None
        self._files: list[Path] = []  # of the request buffer
        self._answer: SharedFile | None = None  # None: the request buffer is not registered
        self._number = 0
        self._outputs: dict[str, np.ndarray] = {}
        self.load(get_weights(network.module))
        address = protocol.service_address(site.sockets, site.service)
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IDENTITY, f"{folder.worker}.{os.getpid()}".encode())
        self._socket.setsockopt(zmq.MAXMSGSIZE, protocol.MAX_FRAME_BYTES)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 20)
        self._socket.connect(address)
        self._leave = weakref.finalize(self, _leave, self._socket, self._context, self._files)

    def load(self, weights: Mapping[str, np.ndarray], *, slot: int = 0) -> None:
        """Copy the weights of a model into a slot; see `ludus.inference.Inference.load`."""
        check_shapes(weights, self._shapes)
        held = self._models.setdefault(slot, {})
        for name, array in weights.items():
            if name in held and held[name].dtype == array.dtype:
                held[name][...] = array
            else:
                held[name] = np.array(array, order="C")
        self._keys[slot] = content_key(held)

    def drop(self, slot: int) -> None:
        """Remove the model of a slot."""
        self._models.pop(slot, None)
        self._keys.pop(slot, None)

    def run(self, observation: Leaves, *, privileged: Leaves, state: Leaves, spans: Sequence[Span] = ()) -> Outputs:
        """Evaluate n rows, waiting for the server without a time limit; see `ludus.inference.Inference.run`.

        Raises:
            ContractError: The server cannot evaluate them.
        """
        leaves = {f"observation/{name}": leaf for name, leaf in observation.items()}
        leaves |= {f"privileged/{name}": leaf for name, leaf in privileged.items()}
        leaves |= {f"state/{name}": leaf for name, leaf in state.items()}
        rows = len(next(iter(leaves.values())))
        area = self._written(leaves, rows)
        table = np.array(spans or [Span(0, 0, rows)], np.int64)
        message = protocol.EvaluateRequest(0, rows, table.tobytes(), bool(privileged), bool(state))
        while (outputs := self._try(message, area, set(table[:, 0].tolist()))) is None:
            _log.info("%s: the inference server was restarted", self._site.worker)
            self._answer = None
        return outputs

    def close(self) -> None:
        """Disconnect from the server; garbage collection and the end of the process do so too."""
        self._leave()

    def _try(self, message: protocol.EvaluateRequest, area: SharedFile, slots: set[int]) -> Outputs | None:
        """Return the answer to a request; None if the server does not know this client."""
        try:
            answer = self._ensure_registered(area)
            self._update_slots(slots)
            done = self._request(message, protocol.EvaluateResult)
        except _UnknownClientError:
            return None
        return self._copied(answer, done.leaves, message.rows)

    # -- memory --------------------------------------------------------------------------------------------------

    def _written(self, leaves: Leaves, rows: int) -> SharedFile:
        """Write rows into the request buffer, a new one if they do not fit."""
        specs = {name: ArraySpec(dtype=leaf.dtype.str, shape=leaf.shape[1:]) for name, leaf in leaves.items()}
        if (
            self._area is None
            or rows > self._rows
            or any(self._specs.get(name) != spec for name, spec in specs.items())
        ):
            self._specs |= specs
            self._rows = max(self._rows, 1 << (rows - 1).bit_length())
            _remove(self._files)
            self._area, self._answer = self._folder.create(Layout(self._sized())), None
            self._files.append(self._area.path)
        for name, leaf in leaves.items():
            self._area.copies[0][name][:rows] = leaf
        return self._area

    def _sized(self) -> dict[str, ArraySpec]:
        return {name: evolve(spec, shape=(self._rows, *spec.shape)) for name, spec in self._specs.items()}

    def _copied(self, answer: SharedFile, names: Sequence[str], rows: int) -> Outputs:
        groups: dict[str, dict[str, np.ndarray]] = {"heads": {}, "state": {}}
        for name in names:
            group, _, leaf = name.partition("/")
            source = answer.copies[0][name]
            held = self._outputs.get(name)
            if held is None or held.shape != source.shape:
                held = self._outputs[name] = np.empty_like(source)
            held[:rows] = source[:rows]
            groups[group][leaf] = held[:rows]
        return Outputs(groups["heads"], groups["state"])

    # -- the server ----------------------------------------------------------------------------------------------

    def _ensure_registered(self, area: SharedFile) -> SharedFile:
        """Register the request buffer if necessary, and return the answer buffer."""
        if self._answer is None:
            self._sent_keys.clear()  # registering clears all slots
            specs = protocol.pack_specs(self._sized())
            message = protocol.RegisterClient(0, self._site.player, self._architecture, area.name, specs, self._rows)
            opened = self._request(message, protocol.ClientRegistered)
            server = opened.file.rsplit(".", 2)[0]
            self._answer = self._folder.attach(server, opened.file, protocol.unpack_specs(opened.specs))
        return self._answer

    def _update_slots(self, slots: set[int]) -> None:
        """Assign the models of slots that are needed, and clear those of removed models."""
        for slot in self._sent_keys.keys() - self._keys.keys():
            self._request(protocol.ClearSlot(0, slot), protocol.ModelStatus)
            del self._sent_keys[slot]
        for slot in slots:
            key = self._keys.get(slot, "")
            if not key:
                raise ContractError(f"slot {slot} has no model; call load first")
            if self._sent_keys.get(slot) != key:
                if not self._request(protocol.AssignModel(0, slot, key), protocol.ModelStatus).available:
                    self._upload(slot, key)
                self._sent_keys[slot] = key

    def _upload(self, slot: int, key: str) -> None:
        weights = self._models[slot]
        layout = Layout.of({name: (array.shape, array.dtype) for name, array in weights.items()})
        file = self._folder.create(layout)
        try:
            for name, array in file.copies[0].items():
                array[...] = weights[name]
            self._request(
                protocol.UploadModel(0, slot, key, file.name, protocol.pack_specs(layout.specs)), protocol.ModelStatus
            )
        finally:
            file.path.unlink(missing_ok=True)

    def _request(self, message: protocol.Message, kind: type[T]) -> T:
        """Send a request, repeatedly, until it is answered."""
        self._number += 1
        frame = protocol.encode(evolve(message, number=self._number))
        while True:
            with suppress(zmq.Again):  # the queue is full while the server is not running
                self._socket.send(frame, zmq.NOBLOCK)
            while self._socket.poll(_RETRY_MS):
                answer = protocol.decode(self._socket.recv())
                if answer.number != self._number:
                    continue  # to an earlier request
                if isinstance(answer, protocol.UnknownClient):
                    raise _UnknownClientError
                if isinstance(answer, protocol.RequestRejected):
                    raise ContractError(f"the inference server rejected a request: {answer.reason}")
                if not isinstance(answer, kind):
                    raise WireError(f"expected {kind.__name__}, got {type(answer).__name__}")
                return answer


def _leave(socket: zmq.Socket[bytes], context: zmq.Context[zmq.Socket[bytes]], files: list[Path]) -> None:
    with suppress(zmq.Again):
        socket.send(protocol.encode(protocol.ClientLeft(0)), zmq.NOBLOCK)
    socket.close(linger=_LINGER_MS)
    context.term()
    _remove(files)


def _remove(files: list[Path]) -> None:
    while files:
        files.pop().unlink(missing_ok=True)


def make_client(
    config: ServerConfig, *, module: nn.Module, request: NetworkRequest, site: ServiceEndpoint | None = None
) -> Inference:
    """Make the runtime; the factory of the component.

    In a single-process run, and without shared memory, it is the runtime that the server would use.
    """
    folder = None if site is None else SharedFolder.beside(site.sockets, f"{site.worker}-net{next(_numbers)}")
    if site is None or folder is None:
        return make_runtime(config, module, request)
    return RemoteInference(Network(module, request), site=site, folder=folder)
