"""Networks of papers: options of ``modular``, filled in from few options and the leaves of a role; inputs of AET."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from attrs import frozen
from gymnasium import Space, spaces
from ludus.errors import ConfigError, ContractError
from ludus.network import NetworkRequest
from ludus.option import option, whole
from ludus.spaces import is_image

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
from ludus_networks.images import cells_to_keep
from ludus_networks.modular import ModularNetwork, build

_FEATURES = whole(1, 65_536)


@frozen(kw_only=True)
class AETInputs:
    """Observations of the agents of [AET figure 2].

    The paper gives the groups, the image and the sizes of the layers. The sizes of all other groups are assumptions,
    chosen so that the numbers of parameters are close to the paper's. Teammates and opponents are encoded one by one,
    so that for both sides ten encodings of 128 units are the 1,280 inputs of the paper's Mid-MLP.
    """

    image: tuple[int, int, int] = option((72, 48, 8), help="height, width and channels of the mini-image; paper")
    active: int = option(384, _FEATURES, help="features of the controlled agent")
    mates: int = option(1792, _FEATURES, help="features of the observation of each of the 3 other mice; mouse only")
    last_cat: int = option(320, _FEATURES, help="features of the cat when last seen; mouse only")
    last_mouse: int = option(192, _FEATURES, help="features of each of the 4 mice when last seen; cat only")
    overall: int = option(256, _FEATURES, help="features of the state of the match")
    objects: int = option(2048, _FEATURES, help="features of the fixed entities (Entity-1)")
    things: tuple[int, int] = option((32, 64), help="maximum of variable entities, and features of each (Entity-2)")
    memory: int = option(1024, _FEATURES, help="memory features")
    invisible: int = option(512, _FEATURES, help="features that only the value reads")

    def request(self, side: str) -> NetworkRequest:
        """Return PPO's request for the network of ``"cat"`` or ``"mouse"``: 18 actions, 16 directions, a value."""
        last_known = (
            {"last_opponents": _box(4, self.last_mouse)}
            if side == "cat"
            else {"mates": _box(3, self.mates), "last_opponent": _box(self.last_cat)}
        )
        return NetworkRequest(
            observation={
                "image": spaces.Box(0, 255, self.image, np.uint8),
                "active": _box(self.active),
                **last_known,
                "overall": _box(self.overall),
                "objects": _box(self.objects),
                "things": _box(*self.things),
                "things_present": spaces.MultiBinary(self.things[0]),
                "memory": _box(self.memory),
            },
            privileged={"invisible": _box(self.invisible)},
            heads={"policy": 18 + 16},
            critic_heads={"value": 1},
            head_gain={"policy": 0.01},
            labels={"policy": (18, 16)},
        )

    def concat_leaves(self, side: str) -> tuple[str, ...]:
        """Return the option `concat` of network ``aet`` for ``"cat"`` or ``"mouse"``."""
        return ("last_opponents",) if side == "cat" else ("mates",)


def _box(*shape: int) -> Space[np.ndarray]:
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


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

    units = (*config.vector, *config.torso, config.core_size)[0]

    def image_part(leaf: str) -> ImagePart:
        return ImagePart(
            leaf=leaf,
            kind="conv",
            channels=config.channels,
            pool="grid",
            cells=cells_to_keep(units * config.channels[-1], images=len(role.images)),
            hidden=config.vector,
        )

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
