"""Plan the parts of a modular network from its options and the leaves of a role; report mistakes in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from attrs import frozen
from gymnasium import Space, spaces
from ludus.errors import ContractError
from ludus.network import NetworkRequest
from ludus.spaces import is_image

from ludus_networks.config import AttentionPart, EntityPart, ImagePart, ModularConfig, VectorPart
from ludus_networks.heads import AttentionLabel
from ludus_networks.images import cells_after

EncoderPart: TypeAlias = "VectorPart | ImagePart | EntityPart"
Leaves: TypeAlias = "Mapping[str, Space[Any]]"

#: Prefixes of the names of encoders, so that no name collides with an attribute of torch's modules.
_PREFIXES = {"vectors": "vector-", "images": "image-", "entities": "entity-"}


@frozen
class Plan:
    """Parts of a network.

    Attributes:
        observation: Encoders of the leaves that all heads read, by the names of their weights.
        privileged: Encoders of the leaves that only critic heads read.
        attention: Labels that choose entities, by head and position.
    """

    observation: dict[str, EncoderPart]
    privileged: dict[str, EncoderPart]
    attention: dict[str, dict[int, AttentionLabel]]


def make_plan(config: ModularConfig, request: NetworkRequest) -> Plan:
    """Return the parts that the options describe.

    Raises:
        ContractError: A leaf that an option names does not exist or has another shape than its encoder reads, or the
            number of entities of a label differs from the number of its choices.
    """
    observation: dict[str, EncoderPart] = {}
    privileged: dict[str, EncoderPart] = {}
    for table, prefix in _PREFIXES.items():
        for name, part in getattr(config, table).items():
            path = f"{table}.{name}"
            is_privileged = _is_privileged(part, request, path)
            _check_part(part, request.privileged if is_privileged else request.observation, path)
            (privileged if is_privileged else observation)[prefix + name] = part
    _add_rest(observation, request.observation, config.rest)
    _add_rest(privileged, request.privileged, config.rest)
    return Plan(observation, privileged, _plan_attention(config, request))


def _add_rest(parts: dict[str, EncoderPart], leaves: Leaves, hidden: tuple[int, ...]) -> None:
    """Add an encoder of the leaves that no part reads."""
    read = {leaf for part in parts.values() for leaf in _leaves_of(part)}
    rest = tuple(leaf for leaf in leaves if leaf not in read)
    if rest:
        parts["rest"] = VectorPart(leaves=rest, hidden=hidden)


# -- encoders ------------------------------------------------------------------------------------------------------


def _leaves_of(part: EncoderPart) -> tuple[str, ...]:
    """Return the leaves that a part reads."""
    if isinstance(part, VectorPart):
        return part.leaves
    if isinstance(part, ImagePart):
        return (part.leaf,)
    return (part.leaf, part.present) if part.present else (part.leaf,)


def _is_privileged(part: EncoderPart, request: NetworkRequest, path: str) -> bool:
    """Return whether a part reads privileged leaves; raise if it also reads other leaves."""
    available = {**request.observation, **request.privileged}
    for leaf in _leaves_of(part):
        if leaf not in available:
            raise ContractError(f"{path}: unknown leaf {leaf!r}; the role has {', '.join(available)}")
    privileged = [leaf for leaf in _leaves_of(part) if leaf not in request.observation]
    if privileged and len(privileged) < len(_leaves_of(part)):
        raise ContractError(
            f"{path}: {', '.join(privileged)} is privileged and the other leaves are not; split the table"
        )
    return bool(privileged)


def _check_part(part: EncoderPart, leaves: Leaves, path: str) -> None:
    if isinstance(part, ImagePart):
        _check_image(part, leaves[part.leaf], path)
    elif isinstance(part, EntityPart):
        _check_entities(part, leaves, path)


def _check_image(part: ImagePart, space: Space[Any], path: str) -> None:
    if not is_image(space):
        raise ContractError(
            f"{path}: expected a Box leaf of shape (height, width, channels), got {part.leaf} {_format(space)}"
        )
    for name in ("kernel", "stride"):
        given = getattr(part, name)
        if not isinstance(given, int) and len(given) != len(part.channels):
            raise ContractError(
                f"{path}.{name}: expected one number, or one per entry of channels ({len(part.channels)}), got "
                f"{list(given)}"
            )
    if part.kind != "conv":
        kernels = [part.kernel] if isinstance(part.kernel, int) else part.kernel
        if any(kernel % 2 == 0 for kernel in kernels):
            raise ContractError(f"{path}.kernel: expected odd numbers for {part.kind} blocks, got {part.kernel}")
        if part.padding == "none":
            raise ContractError(f'{path}.padding: expected "same" for {part.kind} blocks, got "none"')
    try:
        cells_after(space, part)
    except ContractError as error:
        raise ContractError(f"{path}: {error}") from None


def _check_entities(part: EntityPart, leaves: Leaves, path: str) -> None:
    shape = leaves[part.leaf].shape or ()
    if not isinstance(leaves[part.leaf], spaces.Box) or len(shape) != 2:
        raise ContractError(
            f"{path}: expected a Box leaf of shape (entities, features), got {part.leaf} {_format(leaves[part.leaf])}"
        )
    if part.present:
        _check_present(leaves[part.present], part, count=shape[0], path=f"{path}.present")


def _check_present(space: Space[Any], part: EntityPart, *, count: int, path: str) -> None:
    if space.shape != (count,):
        raise ContractError(
            f"{path}: expected shape ({count},), one entry for each entity of {part.leaf}, "
            f"got {part.present} {_format(space)}"
        )
    if isinstance(space, spaces.Box) and space.low.any():  # scaling or normalization moved the 0 of absent entities
        raise ContractError(
            f"{path}: expected 0 for absent entities, got {part.present} {_format(space)} from {space.low.min():g} to "
            f"{space.high.max():g}; declare it as MultiBinary, which is neither scaled nor normalized"
        )


def _format(space: Space[Any]) -> str:
    return f"{type(space).__name__}{space.shape}"


# -- attention -----------------------------------------------------------------------------------------------------


def _plan_attention(config: ModularConfig, request: NetworkRequest) -> dict[str, dict[int, AttentionLabel]]:
    """Return the labels that choose entities; none in a network without actions, such as one of critics alone."""
    planned: dict[str, dict[int, AttentionLabel]] = {}
    for i, attention in enumerate(config.attention):
        path = f"attention[{i}]"
        if attention.head not in request.heads and not request.labels:
            continue
        labels = planned.setdefault(attention.head, {})
        if attention.label in labels:
            raise ContractError(
                f"{path}: label {attention.label} of head {attention.head!r} has a table already; remove one"
            )
        labels[attention.label] = _plan_label(attention, config, request, path)
    return planned


def _plan_label(attention: AttentionPart, config: ModularConfig, request: NetworkRequest, path: str) -> AttentionLabel:
    size = _label_size(attention, request, path)
    parts = _entity_parts(attention, config, request, path)
    counts = [(request.observation[part.leaf].shape or (0,))[0] for part in parts]
    if attention.plain + sum(counts) != size:
        raise ContractError(
            f"{path}: label {attention.label} of head {attention.head!r} has {size} choices, but "
            f"{attention.plain} plain and {' + '.join(map(str, counts))} entities make {attention.plain + sum(counts)}"
        )
    return AttentionLabel(
        encoders=tuple(_PREFIXES["entities"] + name for name in attention.entities),
        key=parts[0].key,
        plain=attention.plain,
    )


def _label_size(attention: AttentionPart, request: NetworkRequest, path: str) -> int:
    """Return the number of choices of the label."""
    labels = request.labels.get(attention.head)
    if labels is None:
        available = ", ".join(request.labels) or "no head has labels"
        raise ContractError(
            f"{path}.head: head {attention.head!r} has no labels; expected one with labels: {available}"
        )
    if attention.label >= len(labels):
        raise ContractError(
            f"{path}.label: head {attention.head!r} has the labels 0 to {len(labels) - 1}, got {attention.label}"
        )
    return labels[attention.label]


def _entity_parts(
    attention: AttentionPart, config: ModularConfig, request: NetworkRequest, path: str
) -> list[EntityPart]:
    """Return the encoders of the entities that the label chooses."""
    usable = {name: part for name, part in config.entities.items() if part.key and part.leaf in request.observation}
    parts = [_find_entities(name, usable, path) for name in attention.entities]
    if len({part.key for part in parts}) > 1:
        raise ContractError(f"{path}.entities: expected keys of one size, got {[part.key for part in parts]}")
    return parts


def _find_entities(name: str, usable: Mapping[str, EntityPart], path: str) -> EntityPart:
    if name not in usable:
        raise ContractError(
            f"{path}.entities: expected tables below `entities` that have a key and are not privileged "
            f"({', '.join(usable) or 'there are none'}), got {name!r}"
        )
    return usable[name]
