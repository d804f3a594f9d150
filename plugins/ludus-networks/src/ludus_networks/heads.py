"""Heads: hidden layers and outputs, with attention over entities for some action labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from attrs import frozen
from ludus_torch import linear
from torch import Tensor, nn

from ludus_networks.encoders import EntityKeys
from ludus_networks.layers import hidden_layers, init_orthogonal


@frozen(kw_only=True)
class AttentionLabel:
    """An action label whose choices are entities.

    Args:
        encoders: Names of the encoders of the entities, in the order of the choices.
        key: Number of units of the entities' keys.
        plain: Number of choices before the entities that are not entities.
    """

    encoders: tuple[str, ...]
    key: int
    plain: int


class Head(nn.Module):
    """Hidden layers, a linear layer for plain choices, and a query for each label that chooses entities [HoK eq. 1].

    Args:
        width: Number of input features.
        hidden: Units of the hidden layers.
        activation: Activation after each hidden layer.
        labels: Sizes of the action labels, side by side; one entry for a head without labels.
        gain: Gain of the orthogonal weights of the last layers.
        attention: Labels that choose entities, by position.

    Attributes:
        is_linear: Whether the head is the single layer `out`.
    """

    def __init__(
        self,
        width: int,
        *,
        hidden: Sequence[int],
        activation: str,
        labels: Sequence[int],
        gain: float,
        attention: Mapping[int, AttentionLabel] | None = None,
    ) -> None:
        super().__init__()
        self._attention = dict(attention or {})
        self.is_linear = not hidden and not self._attention
        self._sizes = [self._attention[i].plain if i in self._attention else size for i, size in enumerate(labels)]
        self.layers = hidden_layers(width, hidden, activation)
        width = hidden[-1] if hidden else width
        self.out = init_orthogonal(nn.Linear(width, sum(self._sizes)), gain) if any(self._sizes) else None
        self.queries = nn.ModuleDict(
            {str(i): init_orthogonal(nn.Linear(width, label.key), gain) for i, label in self._attention.items()}
        )

    @property
    def first_weights(self) -> list[str]:
        """Return the names of the weights that read the features."""
        if len(self.layers):
            return ["layers.0.weight"]
        return [name for name, _ in self.named_parameters() if name.endswith("weight")]

    def forward(self, features: Tensor, keys: Mapping[str, EntityKeys]) -> Tensor:
        """Return ``[n, size]`` from ``features [n, width]`` and the keys of entities by encoder."""
        features = self.layers(features)
        if not self._attention:
            assert self.out is not None
            outputs: Tensor = self.out(features)
            return outputs
        plain = None if self.out is None else self.out(features).split(self._sizes, dim=1)
        labels: list[Tensor] = []
        for i in range(len(self._sizes)):
            if plain is not None:
                labels.append(plain[i])
            if i in self._attention:
                query = self.queries[str(i)](features)
                labels += [keys[encoder].logits(query) for encoder in self._attention[i].encoders]
        return torch.cat(labels, dim=1)


def evaluate_heads(heads: Mapping[str, Head], features: Tensor, keys: Mapping[str, EntityKeys]) -> dict[str, Tensor]:
    """Return the outputs ``[n, size]`` of heads that read the same features; of linear heads by one product."""
    if all(head.is_linear for head in heads.values()):
        return linear.apply_heads({name: head.out for name, head in heads.items() if head.out is not None}, features)
    return {name: head(features, keys) for name, head in heads.items()}
