"""The papers' networks: options of ``modular`` filled in from a few of their own and the leaves of a role."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen
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

__all__ = ["aet_parts", "dis_parts", "hok_parts", "make_aet", "make_dis", "make_hok"]


@frozen
class _Sorted:
    """The leaves of a role by what reads them."""

    images: tuple[str, ...]
    entities: dict[str, str]  # leaf → its mask, "" where there is none
    vectors: tuple[str, ...]


def _sort(request: NetworkRequest, *, present: str, entities: tuple[str, ...]) -> _Sorted:
    """Sort leaves: images by their shape, entities by their masks or by name, the rest are vectors."""
    images, masks, vectors = [], {}, []
    for group in (request.observation, request.privileged):
        for leaf, space in group.items():
            if is_image(space):
                images.append(leaf)
            elif _is_entities(space) and (leaf in entities or leaf + present in group):
                masks[leaf] = leaf + present if leaf + present in group else ""
        vectors += [leaf for leaf in group if leaf not in (*images, *masks, *masks.values())]
    return _Sorted(tuple(images), masks, tuple(vectors))


def _is_entities(space: Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) == 2


def _by_name(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts by names that may be those of tables."""
    return {_table(leaf): part for leaf, part in parts.items()}


def _table(leaf: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", leaf)


def _check_leaves(option: str, leaves: tuple[str, ...], found: _Sorted, network: str) -> None:
    for leaf in leaves:
        if leaf not in found.entities:
            known = ", ".join(found.entities) or "there are none"
            raise ContractError(
                f"network {network!r}: {option}: expected leaves of shape (entities, features) ({known}), got {leaf!r}"
            )


def aet_parts(config: AETConfig, request: NetworkRequest) -> ModularConfig:
    """Return the parts of [AET §3.2.3, table 3]: an encoder for each leaf, a torso, policy and value layers.

    Raises:
        ContractError: A leaf that is to be kept one by one is no leaf of entities.
    """
    found = _sort(request, present=config.present, entities=config.concat)
    _check_leaves("concat", config.concat, found, "aet")
    return ModularConfig(
        images=_by_name({leaf: ImagePart(leaf=leaf, channels=config.channels) for leaf in found.images}),
        vectors=_by_name({leaf: VectorPart(leaves=(leaf,), hidden=config.encoder) for leaf in found.vectors}),
        entities=_by_name(
            {
                leaf: EntityPart(
                    leaf=leaf, present=mask, hidden=config.encoder, pool="concat" if leaf in config.concat else "max"
                )
                for leaf, mask in found.entities.items()
            }
        ),
        torso=config.torso,
        heads=config.heads,
        critic_heads=config.heads,
        normalize=config.normalize,
    )


def dis_parts(config: DISConfig) -> ModularConfig:
    """Return the parts of [DIS appendix C]: all leaves joined, shared layers, layers of policy and value each."""
    return ModularConfig(
        torso=config.shared,
        heads=config.heads,
        critic_heads=config.heads,
        separate_critic=config.separate_critic,
        activation="leaky_relu",
        normalize=config.normalize,
    )


def hok_parts(config: HoKConfig, request: NetworkRequest) -> ModularConfig:
    """Return the parts of [HoK §4, figure 2]: image, units by type, all else, LSTM, a target label by attention.

    Raises:
        ContractError: A leaf to choose targets from is no leaf of entities.
        ConfigError: There is a label that chooses a target, and nothing to choose from.
    """
    found = _sort(request, present=config.present, entities=config.targets)
    _check_leaves("targets", config.targets, found, "hok")
    offered = tuple(leaf for leaf in found.entities if leaf in request.observation)
    targets = (config.targets or offered) if config.target >= 0 else ()
    if config.target >= 0 and not targets:
        raise ConfigError(
            "target: no leaf of shape (entities, features) to choose from; expected target = -1 where no label "
            "chooses a unit"
        )
    units = {leaf: EntityPart(leaf=leaf, present=mask, hidden=config.units) for leaf, mask in found.entities.items()}
    attention = tuple(
        AttentionPart(
            head=head, label=config.target, entities=tuple(_table(leaf) for leaf in targets), plain=config.plain
        )
        for head in (request.labels or ("policy",))
        if config.target >= 0
    )
    return ModularConfig(
        images=_by_name(
            {
                leaf: ImagePart(leaf=leaf, kind="conv", channels=config.channels, pool="flatten", hidden=config.vector)
                for leaf in found.images
            }
        ),
        entities=_by_name(
            {leaf: evolve(part, key=config.key if leaf in targets else 0) for leaf, part in units.items()}
        ),
        rest=config.vector,
        torso=config.torso,
        core=config.core,
        core_size=config.core_size,
        heads=config.heads,
        critic_heads=config.heads,
        attention=attention,
        normalize=config.normalize,
    )


def make_aet(config: AETConfig, *, request: NetworkRequest) -> ModularNetwork:
    """Make the network of Asymmetric-Evolution Training.

    Raises:
        ContractError: The options do not fit the leaves.
    """
    return build(aet_parts(config, request), request, name="aet")


def make_dis(config: DISConfig, *, request: NetworkRequest) -> ModularNetwork:
    """Make the network of Diversity is Strength."""
    return build(dis_parts(config), request, name="dis")


def make_hok(config: HoKConfig, *, request: NetworkRequest) -> ModularNetwork:
    """Make the network of the Honor of Kings paper.

    Raises:
        ContractError: The options do not fit the leaves or the labels.
    """
    return build(hok_parts(config, request), request, name="hok")
