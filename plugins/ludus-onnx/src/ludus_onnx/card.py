"""The card of an exported model: everything that a program needs to run it, as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import attrs
import numpy as np
from attrs import frozen
from gymnasium import Space, spaces
from ludus.environment import Role
from ludus.export import DecisionModule
from ludus.records import ModelRecord
from ludus.runs import TrainedModel
from ludus.spaces import leaf_spaces

from ludus_onnx.comparison import TOLERANCE
from ludus_onnx.conversion import Converted
from ludus_onnx.flat_module import Arrays, Exportable

FORMAT_VERSION = 1
MODEL_FILE, GOLDEN_FILE, CARD_FILE = "model.onnx", "golden.json", "card.json"


@frozen(kw_only=True)
class CardContext:
    """What a card describes besides the file.

    Attributes:
        model: The model.
        role: Role whose observations and masks are the inputs of the file.
        decisions: Its decision module.
        environment: Name of the environment.
        folded: Number of interfaces that the file contains, from the one next to the policy on.
        changes_actions: Whether each interface changes actions, next to the environment first.
        parents: Models that it was trained from, nearest first.
        license: SPDX expression or text of the user; empty: not stated.
        golden_source: ``"matches"`` or ``"spaces"``.
    """

    model: TrainedModel
    role: Role
    decisions: DecisionModule
    environment: str
    folded: int
    changes_actions: tuple[bool, ...]
    parents: tuple[ModelRecord, ...]
    license: str
    golden_source: str


def make_card(context: CardContext, exportable: Exportable, converted: Converted) -> dict[str, Any]:
    """Return the card of an exported model as JSON values."""
    record = context.model.record
    return {
        "format": "ludus-onnx",
        "format_version": FORMAT_VERSION,
        "model": record.participant,
        "license": context.license or None,
        "environment": context.environment,
        "role": context.model.raw_role.name,
        "file": {
            "name": MODEL_FILE,
            "sha256": hashlib.sha256(converted.data).hexdigest(),
            "opset": converted.opset,
            "exporter": converted.exporter,
            "refused_exporters": converted.refused,
        },
        "inputs": _describe_inputs(context, exportable),
        "outputs": _describe_arrays(exportable.outputs),
        "action": [_describe_part(attrs.asdict(part)) for part in context.decisions.parts],
        "action_space": describe_space(context.role.action_space),
        **_describe_interfaces(context),
        "lineage": _describe_lineage(record, context.parents),
        "golden": {
            "name": GOLDEN_FILE,
            "rows": len(next(iter(exportable.inputs.values()))),
            "source": context.golden_source,
            "tolerance": TOLERANCE,
            "max_error": converted.max_error,
        },
        "versions": {name: version(name) for name in ("ludus", "ludus-onnx", "torch", "onnx", "onnxruntime")},
    }


def _describe_inputs(context: CardContext, exportable: Exportable) -> list[dict[str, Any]]:
    """Return name, dtype, shape and meaning of the inputs."""
    leaves = leaf_spaces(context.role.observation_space)
    start = context.decisions.initial_state
    described = _describe_arrays(exportable.inputs)
    for entry in described:
        group, _, leaf = entry["name"].partition("/")
        if group == "observation":
            entry["space"] = describe_space(leaves[leaf])
        elif group == "state":
            entry["initial"] = start[leaf][0].tolist()
            entry["next"] = f"next_state/{leaf}"
    return described


def _describe_arrays(arrays: Arrays) -> list[dict[str, Any]]:
    return [
        {"name": name, "dtype": str(array.dtype), "shape": ["batch", *array.shape[1:]]}
        for name, array in arrays.items()
    ]


def _describe_part(part: dict[str, Any]) -> dict[str, Any]:
    """Return an action part without the fields of other kinds."""
    used = {"normal": {"offset", "scale", "low", "high"}, "greedy": {"epsilon"}}
    fields = {"kind", "outputs", "columns"} | used.get(part["kind"].removeprefix("tanh-"), set())
    return {name: finite(value) for name, value in part.items() if name in fields}


def _describe_interfaces(context: CardContext) -> dict[str, Any]:
    """Return the interfaces before, in and behind the file."""
    tables = [{"interface": name, "options": finite(options)} for name, options in context.model.interfaces]
    outside = len(tables) - context.folded
    raw = leaf_spaces(context.model.raw_role.observation_space)
    return {
        "preprocessing": tables[:outside],
        "included_preprocessing": tables[outside:],
        "postprocessing": [table for table, changes in zip(tables, context.changes_actions, strict=True) if changes][
            ::-1
        ],
        "environment_observation": {name: describe_space(space) for name, space in raw.items()},
        "environment_action_space": describe_space(context.model.raw_role.action_space),
    }


def _describe_lineage(record: ModelRecord, parents: tuple[ModelRecord, ...]) -> dict[str, Any]:
    return {
        "sha256": record.hash,
        "player": record.player,
        "decisions": record.decisions,
        "version": record.version,
        "frozen_unix_s": record.created_s,
        "parents": [{"model": parent.participant, "sha256": parent.hash} for parent in parents],
        "algorithm": record.manifest.get("algorithm"),
        "network": record.manifest.get("network"),
        "trained_with": record.manifest.get("versions", {}),
    }


def describe_space(space: Space[Any]) -> dict[str, Any]:
    """Return a space as JSON values; infinite bounds are None."""
    described: dict[str, Any] = {"type": type(space).__name__}
    if isinstance(space, spaces.Tuple | spaces.Dict):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return described | {"parts": {str(name): describe_space(part) for name, part in parts}}
    described |= {"dtype": str(space.dtype), "shape": list(space.shape or ())}
    if isinstance(space, spaces.Box):
        return described | {"low": _bound(space.low), "high": _bound(space.high)}
    if isinstance(space, spaces.Discrete):
        return described | {"n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return described | {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
    return described


def _bound(bound: np.ndarray) -> Any:
    """Return one number if all are equal, else all of them."""
    if bound.size and (bound == bound.flat[0]).all():
        return finite(bound.flat[0].item())
    return finite(bound.tolist())


def finite(value: Any) -> Any:
    """Return JSON values without numbers that JSON lacks: infinite ones become None, arrays and tuples lists."""
    if isinstance(value, Mapping):
        return {str(name): finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [finite(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if isinstance(value, str | int | None) else str(value)
