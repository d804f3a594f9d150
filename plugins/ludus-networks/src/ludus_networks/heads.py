"""Heads: hidden layers, then the outputs an algorithm asked for, label by label where entities are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from attrs import frozen
from torch import Tensor, nn

from ludus_networks.encoders import hidden_layers, initialised
from ludus_networks.parts import Choices

__all__ = ["Head", "Target"]


@frozen(kw_only=True)
class Target:
    """A label whose choices are entities.

    Args:
        encoders: Whose entities, in the order of the choices.
        key: Units of their keys.
        plain: Choices before them that are none.
    """

    encoders: tuple[str, ...]
    key: int
    plain: int


class Head(nn.Module):
    """Hidden layers, a linear layer for plain choices, and a query for each label that chooses entities [HoK eq. 1].

    Args:
        width: Features that come in.
        hidden: Units of the hidden layers.
        activation: Behind each of them.
        labels: Sizes of the labels, side by side; one for a head that is a whole.
        targets: Which labels choose entities, by position.
        gain: Of the orthogonal weights of the last layers.
    """

    def __init__(
        self,
        width: int,
        *,
        hidden: Sequence[int],
        activation: str,
        labels: Sequence[int],
        gain: float,
        targets: Mapping[int, Target] | None = None,
    ) -> None:
        super().__init__()
        self._targets = dict(targets or {})
        self._sizes = [self._targets[i].plain if i in self._targets else size for i, size in enumerate(labels)]
        self.layers = hidden_layers(width, hidden, activation)
        width = hidden[-1] if hidden else width
        self.out = initialised(nn.Linear(width, sum(self._sizes)), gain) if any(self._sizes) else None
        self.queries = nn.ModuleDict(
            {str(label): initialised(nn.Linear(width, target.key), gain) for label, target in self._targets.items()}
        )

    def forward(self, features: Tensor, choices: Mapping[str, Choices]) -> Tensor:
        """Return ``[n, size]`` from ``features [n, width]`` and what each encoder offers to choose from."""
        features = self.layers(features)
        if not self._targets:
            assert self.out is not None
            outputs: Tensor = self.out(features)
            return outputs
        plain = features[:, :0] if self.out is None else self.out(features)
        labels: list[Tensor] = []
        for label, logits in enumerate(plain.split(self._sizes, dim=1)):
            labels.append(logits)
            if label in self._targets:
                query = self.queries[str(label)](features)
                labels += [choices[encoder].logits(query) for encoder in self._targets[label].encoders]
        return torch.cat(labels, dim=1)
