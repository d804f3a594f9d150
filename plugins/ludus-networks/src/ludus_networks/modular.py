"""Network ``modular``: encoders side by side, a torso, a recurrent core and heads, built from options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from gymnasium import Space
from ludus.errors import ContractError
from ludus.network import InputColumns, NetworkRequest
from torch import Tensor, nn

from ludus_networks.config import ModularConfig
from ludus_networks.encoders import EntityKeys, make_encoder
from ludus_networks.heads import Head, evaluate_heads
from ludus_networks.layers import EncoderSettings, hidden_layers
from ludus_networks.plan import EncoderPart, Plan, make_plan
from ludus_networks.recurrent import RecurrentCore

Group = dict[str, Tensor]
RunCore = Callable[[Tensor, str], Tensor]  # features and the prefix of a core's state to the outputs of the core

_CRITIC = "critic_"  # prefix of the state of a critic's own core; the shared core has none


class _Encoders(nn.ModuleDict):
    """Encoders that read the same leaves; their features are joined."""

    def __init__(
        self, parts: Mapping[str, EncoderPart], leaves: Mapping[str, Space[Any]], settings: EncoderSettings
    ) -> None:
        encoders = {name: make_encoder(leaves, part, settings) for name, part in parts.items()}
        super().__init__(encoders)
        self.width = sum(encoder.width for encoder in encoders.values())

    def encode(self, leaves: Group) -> tuple[Tensor, dict[str, EntityKeys]]:
        """Return the joined features ``[n, width]``, and the keys of entities by encoder."""
        features: list[Tensor] = []
        keys: dict[str, EntityKeys] = {}
        for name, encoder in self.items():
            encoded, entity_keys = encoder(leaves)
            features.append(encoded)
            if entity_keys is not None:
                keys[name] = entity_keys
        return features[0] if len(features) == 1 else torch.cat(features, dim=1), keys

    def feature_columns(self) -> Sequence[InputColumns]:
        """Return the columns of the joined features."""
        return [columns for name, encoder in self.items() for columns in encoder.feature_columns(name)]  # type: ignore[operator]

    def update_statistics(self, leaves: Mapping[str, Tensor]) -> None:
        for encoder in self.values():
            encoder.update_statistics(leaves)  # type: ignore[operator]


class _Trunk(nn.Module):
    """Encoders, a torso, and a recurrent core that the network steps or unrolls."""

    def __init__(self, config: ModularConfig, plan: Plan, request: NetworkRequest, settings: EncoderSettings) -> None:
        super().__init__()
        self.encoders = _Encoders(plan.observation, request.observation, settings)
        width = self.encoders.width
        self.layers = hidden_layers(width, config.torso, config.activation)
        self._has_layers = bool(config.torso)
        width = config.torso[-1] if config.torso else width
        self.core = None if config.core == "none" else RecurrentCore(config.core, width, config.core_size)
        self.width = self.core.size if self.core else width

    def input_columns(self) -> Mapping[str, Sequence[InputColumns]]:
        """Return the columns of the first layer of the torso; see `ludus.network.NamedInputs`."""
        return {"layers.0.weight": self.encoders.feature_columns()} if self._has_layers else {}

    def feature_columns(self) -> Sequence[InputColumns]:
        """Return the columns of the features: those of the encoders without a torso and a core."""
        if self._has_layers or self.core is not None:
            return [InputColumns("trunk", self.width)]
        return self.encoders.feature_columns()

    def encode(self, leaves: Group) -> tuple[Tensor, dict[str, EntityKeys]]:
        """Return the input of the core ``[n, …]``, and the keys of entities by encoder."""
        features, keys = self.encoders.encode(leaves)
        return self.layers(features) if self._has_layers else features, keys


class ModularNetwork(nn.Module):
    """A trunk and heads; see `ludus.network` for `forward`.

    Critic heads read the features of the shared trunk or of their own trunk, joined with the features of encoders of
    the privileged leaves. No other head reads anything privileged.

    Args:
        config: Options.
        plan: Parts of the network.
        request: Requested heads and available leaves.
    """

    def __init__(self, config: ModularConfig, plan: Plan, request: NetworkRequest) -> None:
        super().__init__()
        self._advice = ""
        settings = EncoderSettings(
            activation=config.activation, scale=config.scale, clip=config.normalize_clip if config.normalize else None
        )
        has_critic = bool(request.critic_heads)
        self.trunk = _Trunk(config, plan, request, settings)
        self.critic_trunk = _Trunk(config, plan, request, settings) if config.separate_critic and has_critic else None
        self.privileged = (
            _Encoders(plan.privileged, request.privileged, settings) if plan.privileged and has_critic else None
        )
        width = self.trunk.width
        critic_width = width + (self.privileged.width if self.privileged is not None else 0)

        def make_heads(sizes: Mapping[str, int], width: int, hidden: Sequence[int]) -> nn.ModuleDict:
            return nn.ModuleDict(
                {
                    name: Head(
                        width,
                        hidden=hidden,
                        activation=config.activation,
                        labels=request.labels[name] if name in plan.attention else (size,),
                        gain=request.head_gain.get(name, 1.0),
                        attention=plan.attention.get(name),
                    )
                    for name, size in sizes.items()
                }
            )

        self.heads = make_heads(request.heads, width, config.heads)
        self.critic_heads = make_heads(request.critic_heads, critic_width, config.critic_heads)

    def advise(self, text: str) -> None:
        """Set the advice."""
        self._advice = text

    def advice(self) -> str:
        """Return what to choose instead of this network; see `ludus.network.AdvisedNetwork`."""
        return self._advice

    def forward(self, observation: Group, privileged: Group, state: Group) -> tuple[Group, Group]:
        """Return the heads ``[n, size]`` and the unchanged, empty state."""
        return self._evaluate(observation, privileged, lambda features, _: features), state

    def input_columns(self) -> Mapping[str, Sequence[InputColumns]]:
        """Return the features that heads read; see `ludus.network.NamedInputs`."""
        critic = [*(self.critic_trunk or self.trunk).feature_columns()]
        if self.privileged is not None:
            critic += self.privileged.feature_columns()
        groups = {"heads": (self.heads, self.trunk.feature_columns()), "critic_heads": (self.critic_heads, critic)}
        return {
            f"{group}.{name}.{weight}": columns
            for group, (heads, columns) in groups.items()
            for name, head in heads.items()
            for weight in cast("Head", head).first_weights
        }

    def update_statistics(self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor]) -> None:
        """Add rows to the statistics of the normalization; see `ludus.network.NormalizingNetwork`."""
        for trunk in (self.trunk, self.critic_trunk):
            if trunk is not None:
                trunk.encoders.update_statistics(observation)
        if self.privileged is not None and privileged:
            self.privileged.update_statistics(privileged)

    def _evaluate(self, observation: Group, privileged: Group, run_core: RunCore) -> Group:
        """Return the outputs of the heads; without those of the critic if privileged leaves are missing."""
        heads: dict[str, Any] = dict(self.heads.items())
        critic_heads: dict[str, Any] = dict(self.critic_heads.items())
        features, keys = self.trunk.encode(observation)
        features = run_core(features, "")
        if self.critic_trunk is None and self.privileged is None:
            return evaluate_heads(heads | critic_heads, features, keys)
        outputs = evaluate_heads(heads, features, keys)
        if self.privileged is not None and not privileged:
            return outputs
        if self.critic_trunk is not None:
            features, keys = self.critic_trunk.encode(observation)
            features = run_core(features, _CRITIC)
        if self.privileged is not None:
            features = torch.cat([features, self.privileged.encode(privileged)[0]], dim=1)
        return outputs | evaluate_heads(critic_heads, features, keys)


class RecurrentModularNetwork(ModularNetwork):
    """A modular network with recurrent cores; see `ludus.network.RecurrentNetwork`."""

    def _cores(self) -> dict[str, RecurrentCore]:
        """Return the cores by the prefixes of their states."""
        trunks = {"": self.trunk, _CRITIC: self.critic_trunk}
        return {prefix: trunk.core for prefix, trunk in trunks.items() if trunk is not None and trunk.core is not None}

    def initial_state(self, rows: int) -> Group:
        """Return the state at the start of a match, leaves ``[rows, size]``."""
        cores = self._cores().items()
        return {prefix + name: leaf for prefix, core in cores for name, leaf in core.initial(rows).items()}

    def forward(self, observation: Group, privileged: Group, state: Group) -> tuple[Group, Group]:
        """Return the heads ``[n, size]`` and the state after this step, leaves ``[n, …]``.

        The state of a critic's own core is unchanged if the critic is not evaluated.

        Raises:
            ContractError: The state is empty.
        """
        _check_state(state)
        cores, after = self._cores(), dict(state)

        def run_core(features: Tensor, prefix: str) -> Tensor:
            outputs, new = cores[prefix].step(features, _select_state(prefix, state))
            after.update({prefix + name: leaf for name, leaf in new.items()})
            return outputs

        return self._evaluate(observation, privileged, run_core), after

    def unroll(self, observation: Group, privileged: Group, state: Group, *, starts: Tensor) -> tuple[Group, Group]:
        """Return the heads ``[T, N, size]`` of T steps and the state after; see `ludus.network.RecurrentNetwork`.

        Encoders and heads run on all T · N rows at once.

        Raises:
            ContractError: The state is empty.
        """
        _check_state(state)
        cores, after = self._cores(), dict(state)

        def run_core(features: Tensor, prefix: str) -> Tensor:
            sequence = features.reshape(*starts.shape, -1)  # [T, N, …]
            outputs, new = cores[prefix].unroll(sequence, _select_state(prefix, state), starts=starts)
            after.update({prefix + name: leaf for name, leaf in new.items()})
            return outputs.flatten(0, 1)

        outputs = self._evaluate(_flatten_steps(observation), _flatten_steps(privileged), run_core)
        return {name: output.reshape(*starts.shape, -1) for name, output in outputs.items()}, after


def _check_state(state: Group) -> None:
    if not state:
        raise ContractError("the network is recurrent: callers must pass its state, at first that of `initial_state`")


def _flatten_steps(group: Group) -> Group:
    """Return leaves ``[T, N, …]`` as ``[T · N, …]``."""
    return {name: leaf.flatten(0, 1) for name, leaf in group.items()}


def _select_state(prefix: str, state: Group) -> Group:
    """Return the state of one core without its prefix."""
    return {name.removeprefix(prefix): leaf for name, leaf in state.items() if name.startswith(_CRITIC) == bool(prefix)}


def build(config: ModularConfig, request: NetworkRequest, *, name: str) -> ModularNetwork:
    """Return a network with the parts that the options describe.

    Args:
        config: Options.
        request: Requested heads and available leaves.
        name: Name of the network, for messages.

    Raises:
        ContractError: The options do not fit the leaves or the heads.
    """
    try:
        plan = make_plan(config, request)
    except ContractError as error:
        raise ContractError(f"network {name!r}: {error}") from None
    return (ModularNetwork if config.core == "none" else RecurrentModularNetwork)(config, plan, request)


def make_modular(config: ModularConfig, *, request: NetworkRequest) -> ModularNetwork:
    """Return a modular network.

    Raises:
        ContractError: The options do not fit the leaves or the heads.
    """
    return build(config, request, name="modular")
