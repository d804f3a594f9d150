"""From options and the leaves there are to the parts of a network, with every mistake as one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from attrs import frozen
from gymnasium import Space, spaces
from ludus.errors import ContractError
from ludus.network import NetworkRequest

from ludus_networks.config import AttentionPart, EntityPart, ImagePart, ModularConfig, VectorPart
from ludus_networks.heads import Target
from ludus_networks.inputs import is_image

__all__ = ["BatchShard", "Plan", "make_plan"]

BatchShard: TypeAlias = "VectorPart | ImagePart | EntityPart"
Leaves: TypeAlias = "Mapping[str, Space[Any]]"

#: What is before a part's own name in the names of its weights, so that no name is one of torch's.
_PREFIXES = {"vectors": "vector-", "images": "image-", "entities": "entity-"}


@frozen
class Plan:
    """The parts of a network.

    Attributes:
        observation: Encoders of what all heads read, by the names of their weights.
        privileged: Encoders of what only critic heads read.
        targets: For each head which of its labels choose entities.
    """

    observation: dict[str, BatchShard]
    privileged: dict[str, BatchShard]
    targets: dict[str, dict[int, Target]]


def make_plan(config: ModularConfig, request: NetworkRequest) -> Plan:
    """Return the parts that the options ask for.

    Raises:
        ContractError: A leaf that an option names is not there or has another shape than its encoder reads, or a
            label chooses from entities in another number than it has choices.
    """
    observation: dict[str, BatchShard] = {}
    privileged: dict[str, BatchShard] = {}
    for kind, prefix in _PREFIXES.items():
        for name, part in getattr(config, kind).items():
            where = f"{kind}.{name}"
            hidden = _is_privileged(part, request, where)
            _check_part(part, request.privileged if hidden else request.observation, where)
            (privileged if hidden else observation)[prefix + name] = part
    for parts, leaves in ((observation, request.observation), (privileged, request.privileged)):
        named = {leaf for part in parts.values() for leaf in _leaves(part)}
        rest = tuple(leaf for leaf in leaves if leaf not in named)
        if rest:
            parts["rest"] = VectorPart(leaves=rest, hidden=config.rest)
    return Plan(observation, privileged, _targets(config, request))


def _targets(config: ModularConfig, request: NetworkRequest) -> dict[str, dict[int, Target]]:
    """Return which labels choose entities; none in a network that has no actions, such as one of critics alone."""
    targets: dict[str, dict[int, Target]] = {}
    for i, attention in enumerate(config.attention):
        where = f"attention[{i}]"
        if attention.head not in request.heads and not request.labels:
            continue
        labels = targets.setdefault(attention.head, {})
        if attention.label in labels:
            raise ContractError(f"{where}: label {attention.label} of head {attention.head!r} has one already")
        labels[attention.label] = _target(attention, config, request, where)
    return targets


def _leaves(part: BatchShard) -> tuple[str, ...]:
    if isinstance(part, VectorPart):
        return part.leaves
    if isinstance(part, ImagePart):
        return (part.leaf,)
    return (part.leaf, part.present) if part.present else (part.leaf,)


def _is_privileged(part: BatchShard, request: NetworkRequest, where: str) -> bool:
    """Return whether a part reads privileged leaves; there must be none, or only such."""
    known = {**request.observation, **request.privileged}
    for leaf in _leaves(part):
        if leaf not in known:
            raise ContractError(f"{where}: there is no leaf {leaf!r}; there are {', '.join(known)}")
    hidden = [leaf for leaf in _leaves(part) if leaf not in request.observation]
    if hidden and len(hidden) < len(_leaves(part)):
        raise ContractError(f"{where}: {', '.join(hidden)} is privileged and the other leaves are not; split the table")
    return bool(hidden)


def _check_part(part: BatchShard, leaves: Leaves, where: str) -> None:
    if isinstance(part, ImagePart):
        _check_image(part, leaves[part.leaf], where)
    elif isinstance(part, EntityPart):
        _check_entities(part, leaves, where)


def _check_image(part: ImagePart, space: Space[Any], where: str) -> None:
    if not is_image(space):
        raise ContractError(
            f"{where}: expected a Box leaf of shape (height, width, channels), got {part.leaf} {_shown(space)}"
        )
    if part.kind == "residual" and part.kernel % 2 == 0:
        raise ContractError(f"{where}.kernel: expected an odd number for residual blocks, got {part.kernel}")


def _check_entities(part: EntityPart, leaves: Leaves, where: str) -> None:
    shape = leaves[part.leaf].shape or ()
    if not isinstance(leaves[part.leaf], spaces.Box) or len(shape) != 2:
        raise ContractError(
            f"{where}: expected a Box leaf of shape (entities, features), got {part.leaf} {_shown(leaves[part.leaf])}"
        )
    if part.present:
        _check_present(leaves[part.present], part, count=shape[0], where=f"{where}.present")


def _check_present(space: Space[Any], part: EntityPart, *, count: int, where: str) -> None:
    if space.shape != (count,):
        raise ContractError(
            f"{where}: expected shape ({count},), one entry for each entity of {part.leaf}, "
            f"got {part.present} {_shown(space)}"
        )
    if isinstance(space, spaces.Box) and space.low.any():  # scaled or normalised, by which absent is 0 no longer
        raise ContractError(
            f"{where}: expected 0 for absent entities, got {part.present} {_shown(space)} from {space.low.min():g} to "
            f"{space.high.max():g}; declare it as MultiBinary, which is neither scaled nor normalised"
        )


def _target(attention: AttentionPart, config: ModularConfig, request: NetworkRequest, where: str) -> Target:
    labels = request.labels.get(attention.head)
    if labels is None:
        known = ", ".join(request.labels) or "no head has any"
        raise ContractError(f"{where}.head: head {attention.head!r} has no labels; expected one that has: {known}")
    if attention.label >= len(labels):
        raise ContractError(
            f"{where}.label: head {attention.head!r} has the labels 0 to {len(labels) - 1}, got {attention.label}"
        )
    for name in attention.entities:
        part = config.entities.get(name)
        if part is None or part.leaf not in request.observation or not part.key:
            known = ", ".join(n for n, p in config.entities.items() if p.key and p.leaf in request.observation)
            raise ContractError(
                f"{where}.entities: expected tables below `entities` that have a key and are not privileged "
                f"({known or 'there are none'}), got {name!r}"
            )
    parts = [config.entities[name] for name in attention.entities]
    if len({part.key for part in parts}) > 1:
        raise ContractError(f"{where}.entities: their keys have different sizes: {[part.key for part in parts]}")
    counts = [(request.observation[part.leaf].shape or (0,))[0] for part in parts]
    if attention.plain + sum(counts) != labels[attention.label]:
        raise ContractError(
            f"{where}: label {attention.label} of head {attention.head!r} has {labels[attention.label]} choices, but "
            f"{attention.plain} plain and {' + '.join(map(str, counts))} entities make {attention.plain + sum(counts)}"
        )
    return Target(
        encoders=tuple(_PREFIXES["entities"] + name for name in attention.entities),
        key=parts[0].key,
        plain=attention.plain,
    )


def _shown(space: Space[Any]) -> str:
    return f"{type(space).__name__}{space.shape}"
