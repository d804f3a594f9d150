"""Export every shipped kind of network by both exporters of torch in several opsets, and print the errors as a table.

Run ``python benchmarks/onnx_exports.py [--opsets 15 18 20] [--only NAME] [--speed]``. The networks have random weights
and read rows that are drawn from the observation spaces of the games. An entry is the largest error of ONNX Runtime, as
a share of the scale of an output, with the CPU time of the export; or the number of the note with the reason of a
refusal.

With ``--speed`` it prints thousands of decisions per second of CPU time instead, on one thread: of torch, of the
runtime ``lean`` and of ONNX Runtime, in turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import torch
from attrs import field, frozen
from ludus import load_plugins
from ludus.algorithm import AlgorithmContext
from ludus.errors import ModelError
from ludus.export import ExportableAlgorithm
from ludus.inference import Eager
from ludus.installed import open_game
from ludus.network import NetworkRequest
from ludus_inference.lean import Lean
from ludus_onnx.comparison import make_session
from ludus_onnx.conversion import EXPORTERS, convert
from ludus_onnx.flat_module import DECISION_GROUPS, Exportable, make_exportable
from ludus_onnx.golden import sample_rows
from torch import nn

ROWS = 100
SIZES = (1, 16, 64, 256)
TURNS = 40


@frozen(kw_only=True)
class Case:
    """A network of a game.

    Attributes:
        network: Name of the network.
        options: Its options.
        algorithm: Name of the algorithm.
        algorithm_options: Its options.
        game: Name of the environment.
        game_options: Its options.
        role: Name of the role; empty: the only one.
    """

    network: str
    game: str
    options: Mapping[str, Any] = field(factory=dict)
    algorithm: str = "ppo"
    algorithm_options: Mapping[str, Any] = field(factory=dict)
    game_options: Mapping[str, Any] = field(factory=dict)
    role: str = ""


_TARGETS = ("enemy_hero", "enemy_minions", "enemy_structures", "monster")
_PARTS = {"normalize": True, "core": "gru", "core_size": 64, "torso": (64,), "rest": (32,)}

CASES = {
    "mlp": Case(network="mlp", game="connect4"),
    "mlp, real actions": Case(network="mlp", game="gymnasium", game_options={"id": "Pendulum-v1"}),
    "mlp, sac, real actions": Case(
        network="mlp", game="gymnasium", game_options={"id": "Pendulum-v1"}, algorithm="sac"
    ),
    "mlp, dqn, dueling": Case(network="mlp", game="connect4", algorithm="dqn", algorithm_options={"dueling": True}),
    "mlp, mappo": Case(
        network="mlp", game="chase", role="mouse", algorithm="mappo", algorithm_options={"critic": "local"}
    ),
    "conv": Case(network="conv", game="pong2p", game_options={"observation": "image"}),
    "modular, gru, normalized": Case(network="modular", game="chase", role="cat", options=_PARTS),
    "aet, image": Case(network="aet", game="chase", game_options={"mini_image": True}, role="cat"),
    "dis": Case(network="dis", game="moba", game_options={"map": False}),
    "hok, lstm, target attention": Case(
        network="hok", game="moba", options={"core": "lstm", "target": 5, "targets": _TARGETS, "plain": 1}
    ),
    "hok, gru, target attention": Case(
        network="hok", game="moba", options={"core": "gru", "target": 5, "targets": _TARGETS, "plain": 1}
    ),
}


@frozen
class Prepared:
    """A case with weights.

    Attributes:
        exportable: The decision module with its rows.
        network: Network of the policy.
        request: Request that it was made for.
    """

    exportable: Exportable
    network: nn.Module
    request: NetworkRequest


def make_case(case: Case) -> Prepared:
    """Return a case with random weights."""
    plugins, made = load_plugins(), []

    def make(kind: str, name: str, options: Mapping[str, Any], **context: Any) -> Any:
        component = plugins.components(kind)[name]
        config = component.load_config()
        return component.load_factory()(None if config is None else config(**options), **context)

    game = open_game(case.game, options={case.game: case.game_options})
    with closing(game.make_environment(1)) as environment:
        spec = environment.spec
    role = spec.role(case.role or spec.roles[0].name)

    def build_network(request: NetworkRequest) -> nn.Module:
        made.append((make("network", case.network, case.options, request=request), request))
        network: nn.Module = made[-1][0]
        return network

    context = AlgorithmContext(role=role, build_network=build_network)
    algorithm = make("algorithm", case.algorithm, case.algorithm_options, context=context)
    assert isinstance(algorithm, ExportableAlgorithm)
    decisions = algorithm.make_decision_module(algorithm.make_trainer(seed=1).weights())
    rows = sample_rows(role, decisions.initial_state, size=ROWS, seed=1)
    return Prepared(make_exportable(decisions.module, DECISION_GROUPS, rows), *made[-1])


def export_case(exportable: Exportable, exporter: str, opset: int) -> str:
    """Return the largest error and the time, or the reason of a refusal."""
    start = time.process_time()
    try:
        converted = convert(exportable, opset=opset, exporters=[exporter])
    except ModelError as error:
        return str(error).split(f"{exporter}: ", 1)[-1]
    return f"{converted.max_error:.1e} ({time.process_time() - start:.1f} s)"


def print_table(names: Sequence[str], opsets: Sequence[int]) -> None:
    """Print the table of all cases, and the notes below it."""
    columns = [(exporter, opset) for exporter in EXPORTERS for opset in opsets]
    print("| network | " + " | ".join(f"{exporter} {opset}" for exporter, opset in columns) + " |", flush=True)
    print("|---" * (len(columns) + 1) + "|", flush=True)
    notes: list[str] = []
    for name in names:
        exportable = make_case(CASES[name]).exportable
        entries = []
        for column in columns:
            text = export_case(exportable, *column)
            if not text[0].isdigit():
                notes += [text] if text not in notes else []
                text = f"refused [{notes.index(text) + 1}]"
            entries.append(text)
        print(f"| {name} | " + " | ".join(entries) + " |", flush=True)
    for number, note in enumerate(notes, 1):
        print(f"\n[{number}] {note}")


def print_speed(names: Sequence[str]) -> None:
    """Print thousands of decisions per second of CPU time for every case, runtime and number of rows."""
    torch.set_num_threads(1)
    print("| network | rows | torch | lean | ONNX Runtime |\n|---|---|---|---|---|", flush=True)
    for name in names:
        prepared = make_case(CASES[name])
        session = make_session(convert(prepared.exportable).data)
        eager, lean = Eager(prepared.network, prepared.request), Lean(prepared.network, prepared.request)
        for rows in SIZES:
            inputs = {key: np.resize(leaf, (rows, *leaf.shape[1:])) for key, leaf in prepared.exportable.inputs.items()}
            leaves = {
                group: {key.partition("/")[2]: leaf for key, leaf in inputs.items() if key.startswith(f"{group}/")}
                for group in ("observation", "state")
            }
            calls = [
                partial(runtime.run, leaves["observation"], privileged={}, state=leaves["state"])
                for runtime in (eager, lean)
            ]
            seconds = time_calls([*calls, partial(session.run, None, inputs)])
            rates = " | ".join(f"{rows / second / 1000:.1f}" for second in seconds)
            print(f"| {name} | {rows} | {rates} |", flush=True)


def time_calls(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Return the shortest CPU time of each call, in seconds, measured in turns."""
    best = [float("inf")] * len(calls)
    for _ in range(TURNS):
        for index, call in enumerate(calls):
            start = time.process_time()
            call()
            best[index] = min(best[index], time.process_time() - start)
    return best


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opsets", type=int, nargs="+", default=[15, 18, 20], help="opsets to write")
    parser.add_argument("--only", choices=CASES, action="append", help="a network; may be repeated")
    parser.add_argument("--speed", action="store_true", help="measure decisions per second instead")
    arguments = parser.parse_args()
    names = arguments.only or list(CASES)
    if arguments.speed:
        print_speed(names)
    else:
        print_table(names, arguments.opsets)


if __name__ == "__main__":
    main()
