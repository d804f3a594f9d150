"""The network ``modular``: encoders side by side, a torso, a memory, and heads, put together from options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from gymnasium import Space
from ludus.errors import ContractError
from ludus.network import NetworkRequest
from torch import Tensor, nn

from ludus_networks.config import EntityPart, ImagePart, ModularConfig
from ludus_networks.encoders import hidden_layers
from ludus_networks.heads import Head
from ludus_networks.parts import Choices, EntityEncoder, ImageEncoder, Style, VectorEncoder
from ludus_networks.plan import BatchShard, Plan, make_plan
from ludus_networks.recurrent import Core

__all__ = ["ModularNetwork", "RecurrentModularNetwork", "build", "make_modular"]

Group = dict[str, Tensor]
Remember = Callable[[Tensor, str], Tensor]  # features and whose, to what the memory makes of them

_OWNERS = ("", "critic_")  # before the names of what a memory remembers: the shared one, a critic's own


def _encoders(parts: Mapping[str, BatchShard], leaves: Mapping[str, Space[Any]], style: Style) -> nn.ModuleDict:
    return nn.ModuleDict({name: _encoder(part, leaves, style) for name, part in parts.items()})


def _encoder(
    part: BatchShard, leaves: Mapping[str, Space[Any]], style: Style
) -> VectorEncoder | ImageEncoder | EntityEncoder:
    if isinstance(part, ImagePart):
        return ImageEncoder(leaves[part.leaf], part, style)
    if isinstance(part, EntityPart):
        return EntityEncoder(leaves, part, style)
    return VectorEncoder(leaves, part, style)


def _width(encoders: nn.ModuleDict) -> int:
    widths: list[int] = [encoder.width for encoder in encoders.values()]  # type: ignore[misc]
    return sum(widths)


def _encode(encoders: nn.ModuleDict, leaves: Group) -> tuple[Tensor, dict[str, Choices]]:
    """Return the features of all encoders, joined, and what there is to choose from by encoder."""
    features: list[Tensor] = []
    choices: dict[str, Choices] = {}
    for name, encoder in encoders.items():
        found, offered = encoder(leaves)
        features.append(found)
        if offered is not None:
            choices[name] = offered
    return features[0] if len(features) == 1 else torch.cat(features, dim=1), choices


def _update_statistics(encoders: nn.ModuleDict, leaves: Mapping[str, Tensor]) -> None:
    for encoder in encoders.values():
        encoder.update_statistics(leaves)  # type: ignore[operator]


class _Trunk(nn.Module):
    """Encoders and a torso, and the memory if there is one, which whoever calls steps or unrolls."""

    def __init__(self, config: ModularConfig, plan: Plan, request: NetworkRequest, style: Style) -> None:
        super().__init__()
        self.encoders = _encoders(plan.observation, request.observation, style)
        width = _width(self.encoders)
        self.layers = hidden_layers(width, config.torso, config.activation)
        width = config.torso[-1] if config.torso else width
        self.core = None if config.core == "none" else Core(config.core, width, config.core_size)
        self.width = self.core.size if self.core else width

    def forward(self, leaves: Group) -> tuple[Tensor, dict[str, Choices]]:
        """Return what goes into the memory ``[n, …]``, and what there is to choose from."""
        features, choices = _encode(self.encoders, leaves)
        return self.layers(features), choices


class ModularNetwork(nn.Module):
    """A trunk and heads; see `ludus.network` for `forward`.

    Critic heads read the trunk's features, or those of a trunk of their own, joined with the features of encoders of
    the privileged leaves; so nothing privileged can reach the other heads.

    Args:
        config: The options.
        plan: The parts that the options ask for.
        request: The heads wanted and the leaves there are.
    """

    def __init__(self, config: ModularConfig, plan: Plan, request: NetworkRequest) -> None:
        super().__init__()
        style = Style(
            activation=config.activation,
            scale=config.scale,
            clip=config.normalize_clip if config.normalize else None,
        )
        self.trunk = _Trunk(config, plan, request, style)
        own = config.separate_critic and request.critic_heads
        self.critic_trunk = _Trunk(config, plan, request, style) if own else None
        wanted = plan.privileged and request.critic_heads
        self.privileged = _encoders(plan.privileged, request.privileged, style) if wanted else None
        width = self.trunk.width
        critic_width = width + (_width(self.privileged) if self.privileged is not None else 0)
        self.heads = _heads(request.heads, width, config.heads, config, plan, request)
        self.critic_heads = _heads(request.critic_heads, critic_width, config.critic_heads, config, plan, request)

    def forward(self, observation: Group, privileged: Group, state: Group) -> tuple[Group, Group]:
        """Return the heads ``[n, size]`` and the unchanged, empty state."""
        return self._heads(observation, privileged, lambda features, _: features), state

    def update_statistics(self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor]) -> None:
        """Add rows to the statistics that normalise; see `ludus.network.NormalizingNetwork`."""
        for trunk in (self.trunk, self.critic_trunk):
            if trunk is not None:
                _update_statistics(trunk.encoders, observation)
        if self.privileged is not None and privileged:
            _update_statistics(self.privileged, privileged)

    def _heads(self, observation: Group, privileged: Group, remember: Remember) -> Group:
        features, choices = self.trunk(observation)
        features = remember(features, "")
        outputs = {name: head(features, choices) for name, head in self.heads.items()}
        if self.privileged is not None and not privileged:
            return outputs
        if self.critic_trunk is not None:
            features, choices = self.critic_trunk(observation)
            features = remember(features, "critic_")
        if self.privileged is not None:
            features = torch.cat([features, _encode(self.privileged, privileged)[0]], dim=1)
        for name, head in self.critic_heads.items():
            outputs[name] = head(features, choices)
        return outputs


class RecurrentModularNetwork(ModularNetwork):
    """A modular network with a memory; see `ludus.network.RecurrentNetwork`."""

    def _cores(self) -> dict[str, Core]:
        trunks = zip(_OWNERS, (self.trunk, self.critic_trunk), strict=True)
        return {owner: trunk.core for owner, trunk in trunks if trunk is not None and trunk.core is not None}

    def initial_state(self, rows: int) -> Group:
        """Return the state at the start of a match, leaves ``[rows, size]``."""
        cores = self._cores().items()
        return {owner + name: leaf for owner, core in cores for name, leaf in core.initial(rows).items()}

    def forward(self, observation: Group, privileged: Group, state: Group) -> tuple[Group, Group]:
        """Return the heads ``[n, size]`` and the state after this step, leaves ``[n, …]``.

        Where the critic has a memory of its own and is left out, that stays as it is.

        Raises:
            ContractError: There is no state.
        """
        _check_state(state)
        cores, after = self._cores(), dict(state)

        def remember(features: Tensor, owner: str) -> Tensor:
            features, new = cores[owner].step(features, _of(owner, state))
            after.update({owner + name: leaf for name, leaf in new.items()})
            return features

        return self._heads(observation, privileged, remember), after

    def unroll(self, observation: Group, privileged: Group, state: Group, *, starts: Tensor) -> tuple[Group, Group]:
        """Return the heads ``[T, N, size]`` of T steps and the state after; see `ludus.network.RecurrentNetwork`.

        Encoders and heads run on all T · N rows at once.

        Raises:
            ContractError: There is no state.
        """
        _check_state(state)
        cores, after = self._cores(), dict(state)

        def remember(features: Tensor, owner: str) -> Tensor:
            over_time = features.reshape(*starts.shape, -1)
            over_time, new = cores[owner].unroll(over_time, _of(owner, state), starts=starts)
            after.update({owner + name: leaf for name, leaf in new.items()})
            return over_time.flatten(0, 1)

        outputs = self._heads(_rows(observation), _rows(privileged), remember)
        return {name: output.reshape(*starts.shape, -1) for name, output in outputs.items()}, after


def _check_state(state: Group) -> None:
    if not state:
        raise ContractError("the network remembers: its callers have to carry its state, from `initial_state` on")


def _rows(group: Group) -> Group:
    """Return leaves ``[T, N, …]`` as ``[T · N, …]``."""
    return {name: leaf.flatten(0, 1) for name, leaf in group.items()}


def _of(owner: str, state: Group) -> Group:
    """Return the leaves of one memory by its own names."""
    return {name.removeprefix(owner): leaf for name, leaf in state.items() if name.startswith("critic_") == bool(owner)}


def _heads(
    sizes: Mapping[str, int],
    width: int,
    hidden: Sequence[int],
    config: ModularConfig,
    plan: Plan,
    request: NetworkRequest,
) -> nn.ModuleDict:
    return nn.ModuleDict(
        {
            name: Head(
                width,
                hidden=hidden,
                activation=config.activation,
                labels=request.labels[name] if name in plan.targets else (size,),
                gain=request.head_gain.get(name, 1.0),
                targets=plan.targets.get(name),
            )
            for name, size in sizes.items()
        }
    )


def build(config: ModularConfig, request: NetworkRequest, *, name: str) -> ModularNetwork:
    """Make a network of the parts that the options ask for.

    Args:
        config: The options.
        request: The heads wanted and the leaves there are.
        name: Whom to blame for mistakes.

    Raises:
        ContractError: The options do not fit the leaves or the heads.
    """
    try:
        plan = make_plan(config, request)
    except ContractError as error:
        raise ContractError(f"network {name!r}: {error}") from None
    return (ModularNetwork if config.core == "none" else RecurrentModularNetwork)(config, plan, request)


def make_modular(config: ModularConfig, *, request: NetworkRequest) -> ModularNetwork:
    """Make a modular network.

    Raises:
        ContractError: The options do not fit the leaves or the heads.
    """
    return build(config, request, name="modular")
