"""Networks of papers: options of ``modular``, filled in from few options and the leaves of a role."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import frozen
from gymnasium import Space, spaces
from ludus.errors import ConfigError, ContractError
from ludus.network import NetworkRequest

from ludus_networks.config import (
    AETConfig,
    AttentionPart,
    DISConfig,
    EntityPart,
    HoKConfig,
    ImagePart,
    ModularConfig,
    VectorPart,
)
from ludus_networks.inputs import is_image
from ludus_networks.modular import ModularNetwork, build

__all__ = ["aet_options", "hok_options", "make_aet", "make_dis", "make_hok"]

_Part = TypeVar("_Part", ImagePart, VectorPart, EntityPart)


@frozen
class _RoleLeaves:
    """Leaves of a role by kind."""

    images: tuple[str, ...]
    entities: dict[str, str]  # leaf → its mask, "" without a mask
    vectors: tuple[str, ...]


def _classify_leaves(request: NetworkRequest, *, present: str, entities: tuple[str, ...]) -> _RoleLeaves:
    """Return the leaves by kind: images by their shape, entities by their masks or by name, all others are vectors."""
    images, masks, vectors = [], {}, []
    for group in (request.observation, request.privileged):
        for leaf, space in group.items():
            if is_image(space):
                images.append(leaf)
            elif _is_entity_space(space) and (leaf in entities or leaf + present in group):
                masks[leaf] = leaf + present if leaf + present in group else ""
        vectors += [leaf for leaf in group if leaf not in (*images, *masks, *masks.values())]
    return _RoleLeaves(tuple(images), masks, tuple(vectors))


def _is_entity_space(space: Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) == 2


def _by_table_name(parts: Mapping[str, _Part]) -> dict[str, _Part]:
    """Return parts by valid table names instead of leaves."""
    return {_table_name(leaf): part for leaf, part in parts.items()}


def _table_name(leaf: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", leaf)


def _check_entity_leaves(option: str, leaves: tuple[str, ...], role: _RoleLeaves, network: str) -> None:
    for leaf in leaves:
        if leaf not in role.entities:
            available = ", ".join(role.entities) or "there are none"
            raise ContractError(
                f"network {network!r}: {option}: expected leaves of shape (entities, features) ({available}), "
                f"got {leaf!r}"
            )


# -- AET -----------------------------------------------------------------------------------------------------------


def aet_options(config: AETConfig, request: NetworkRequest) -> ModularConfig:
    """Return the parts of [AET §3.2.3, table 3]: an encoder for each leaf, a torso, layers of policy and value.

    Raises:
        ContractError: A leaf in `concat` is not a leaf of entities.
    """
    role = _classify_leaves(request, present=config.present, entities=config.concat)
    _check_entity_leaves("concat", config.concat, role, "aet")

    def entity_part(leaf: str, mask: str) -> EntityPart:
        pool = "concat" if leaf in config.concat else "max"
        return EntityPart(leaf=leaf, present=mask, hidden=config.encoder, pool=pool)

    return ModularConfig(
        images=_by_table_name({leaf: ImagePart(leaf=leaf, channels=config.channels) for leaf in role.images}),
        vectors=_by_table_name({leaf: VectorPart(leaves=(leaf,), hidden=config.encoder) for leaf in role.vectors}),
        entities=_by_table_name({leaf: entity_part(leaf, mask) for leaf, mask in role.entities.items()}),
        torso=config.torso,
        heads=config.heads,
        critic_heads=config.heads,
        normalize=config.normalize,
    )


def make_aet(config: AETConfig, *, request: NetworkRequest) -> ModularNetwork:
    """Return the network of Asymmetric-Evolution Training.

    Raises:
        ContractError: The options do not fit the leaves.
    """
    return build(aet_options(config, request), request, name="aet")


# -- DIS -----------------------------------------------------------------------------------------------------------


def make_dis(config: DISConfig, *, request: NetworkRequest) -> ModularNetwork:
    """Return the network of Diversity is Strength [appendix C]: joined leaves, shared layers, layers of each head."""
    options = ModularConfig(
        torso=config.shared,
        heads=config.heads,
        critic_heads=config.heads,
        separate_critic=config.separate_critic,
        activation="leaky_relu",
        normalize=config.normalize,
    )
    return build(options, request, name="dis")


# -- HoK -----------------------------------------------------------------------------------------------------------


def hok_options(config: HoKConfig, request: NetworkRequest) -> ModularConfig:
    """Return the parts of [HoK §4, figure 2]: image, units by type, vectors, LSTM, a target label with attention.

    Raises:
        ContractError: A leaf in `targets` is not a leaf of entities.
        ConfigError: A label chooses a target, but the role has no entities.
    """
    role = _classify_leaves(request, present=config.present, entities=config.targets)
    _check_entity_leaves("targets", config.targets, role, "hok")
    targets = _hok_targets(config, role, request)

    def unit_part(leaf: str, mask: str) -> EntityPart:
        return EntityPart(leaf=leaf, present=mask, hidden=config.units, key=config.key if leaf in targets else 0)

    def image_part(leaf: str) -> ImagePart:
        return ImagePart(leaf=leaf, kind="conv", channels=config.channels, pool="flatten", hidden=config.vector)

    return ModularConfig(
        images=_by_table_name({leaf: image_part(leaf) for leaf in role.images}),
        entities=_by_table_name({leaf: unit_part(leaf, mask) for leaf, mask in role.entities.items()}),
        rest=config.vector,
        torso=config.torso,
        core=config.core,
        core_size=config.core_size,
        heads=config.heads,
        critic_heads=config.heads,
        attention=_hok_attention(config, targets, request),
        normalize=config.normalize,
    )


def _hok_targets(config: HoKConfig, role: _RoleLeaves, request: NetworkRequest) -> tuple[str, ...]:
    """Return the entity leaves that the target label chooses from; none without such a label."""
    if config.target < 0:
        return ()
    targets = config.targets or tuple(leaf for leaf in role.entities if leaf in request.observation)
    if not targets:
        raise ConfigError(
            "target: expected a leaf of shape (entities, features) to choose from, but the role has none; set "
            "target = -1 if no label chooses a unit"
        )
    return targets


def _hok_attention(config: HoKConfig, targets: tuple[str, ...], request: NetworkRequest) -> tuple[AttentionPart, ...]:
    """Return the attention of the target label in every head."""
    if not targets:
        return ()
    entities = tuple(_table_name(leaf) for leaf in targets)
    heads = tuple(request.labels) or ("policy",)
    return tuple(AttentionPart(head=head, label=config.target, entities=entities, plain=config.plain) for head in heads)


def make_hok(config: HoKConfig, *, request: NetworkRequest) -> ModularNetwork:
    """Return the network of the Honor of Kings paper.

    Raises:
        ContractError: The options do not fit the leaves or the labels.
        ConfigError: A label chooses a target, but the role has no entities.
    """
    return build(hok_options(config, request), request, name="hok")
