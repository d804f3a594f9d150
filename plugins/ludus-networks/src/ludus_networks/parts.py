"""Encoders as parts: vectors, images, and a variable number of entities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from attrs import frozen
from gymnasium import Space, spaces
from torch import Tensor, nn

from ludus_networks.config import EntityPart, ImagePart, VectorPart
from ludus_networks.encoders import ACTIVATIONS, Convolution, convolutions, hidden_layers, initialised, shrunk
from ludus_networks.inputs import FlatInput, scale_of, width_of
from ludus_networks.normalization import RunningNorm

__all__ = ["Choices", "EntityEncoder", "ImageEncoder", "Style", "VectorEncoder"]

# An entity that is not there: its probability is 0 in 32 bits, and half precision still has the number.
_ABSENT = -1e4


class Choices(NamedTuple):
    """The entities that a label can choose from."""

    keys: Tensor  # [n, E, key]
    present: Tensor | None  # [n, E] bool; None: all are there

    def logits(self, query: Tensor) -> Tensor:
        """Return ``query [n, key]`` times every key, ``[n, E]``; very low where there is no entity."""
        logits = (self.keys @ query.unsqueeze(2)).squeeze(2)
        return logits if self.present is None else logits.masked_fill(~self.present, _ABSENT)


@frozen(kw_only=True)
class Style:
    """What all parts of a network have in common.

    Args:
        activation: After every hidden layer.
        scale: Whether 8-bit leaves are scaled, see `ludus_networks.inputs.scale_of`.
        clip: Largest absolute value after running normalisation; None: there is none.
    """

    activation: str
    scale: bool
    clip: float | None

    def norm(self, columns: list[bool]) -> RunningNorm | None:
        """Return the normalisation of so many columns, None where there is none."""
        return None if self.clip is None or not any(columns) else RunningNorm(columns, clip=self.clip)


class VectorEncoder(nn.Module):
    """Leaves flattened and joined, then hidden layers.

    Args:
        leaves: The spaces of the leaves; `Box` leaves are normalised where the style says so.
        config: Sizes.
        style: Of the network.
    """

    def __init__(self, leaves: Mapping[str, Space[Any]], config: VectorPart, style: Style) -> None:
        super().__init__()
        chosen = {name: leaves[name] for name in config.leaves}
        self._input = FlatInput(chosen, scale=style.scale)
        self.width = config.hidden[-1] if config.hidden else self._input.size
        boxes = [(isinstance(space, spaces.Box), width_of(space)) for space in chosen.values()]
        self.norm = style.norm([box for box, width in boxes for _ in range(width)])
        self.layers = hidden_layers(self._input.size, config.hidden, style.activation)

    def forward(self, leaves: Mapping[str, Tensor]) -> tuple[Tensor, None]:
        """Return features ``[n, width]``, and that there is nothing to choose from."""
        joined = self._input(leaves)
        return self.layers(joined if self.norm is None else self.norm(joined)), None

    def update_statistics(self, leaves: Mapping[str, Tensor]) -> None:
        """Add rows to the statistics, if there are any."""
        if self.norm is not None:
            self.norm.add(self._input(leaves))


class _ResidualBlock(nn.Module):
    """Two convolutions and a shortcut [AET §3.2.3, after He et al. 2016], without batch normalisation.

    Args:
        before: Channels that come in.
        channels: Channels that go out.
        config: Kernel and stride.
        activation: After the first convolution, and after the sum.
    """

    def __init__(self, before: int, channels: int, config: ImagePart, activation: str) -> None:
        super().__init__()
        gain, half = nn.init.calculate_gain(activation), config.kernel // 2  # type: ignore[arg-type]
        self.first = initialised(Convolution(before, channels, config.kernel, config.stride, half), gain)
        self.second = initialised(Convolution(channels, channels, config.kernel, 1, half), gain)
        same = config.stride == 1 and before == channels
        self.shortcut = nn.Identity() if same else initialised(Convolution(before, channels, 1, config.stride), 1.0)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, image: Tensor) -> Tensor:
        """Return ``[n, channels, height, width]``."""
        change = self.second(self.activation(self.first(image)))
        result: Tensor = self.activation(change + self.shortcut(image))
        return result


class ImageEncoder(nn.Module):
    """Residual blocks or convolutions over one leaf, then hidden layers.

    Args:
        space: Of the leaf, ``[height, width, channels]``.
        config: Sizes.
        style: Of the network.
    """

    def __init__(self, space: Space[Any], config: ImagePart, style: Style) -> None:
        super().__init__()
        self._leaf, self._pool = config.leaf, config.pool
        self._factor = scale_of(space, scale=style.scale)
        if config.kind == "conv":
            self.tower = convolutions(space, config, style.activation)
        else:
            counts = [(space.shape or ())[-1], *config.channels]
            pairs = zip(counts, config.channels, strict=False)
            self.tower = nn.Sequential(*(_ResidualBlock(*pair, config, style.activation) for pair in pairs))
        height, width = shrunk(space, config)
        size = config.channels[-1] * (height * width if config.pool == "flatten" else 1)
        self.layers = hidden_layers(size, config.hidden, style.activation)
        self.width = config.hidden[-1] if config.hidden else size

    def forward(self, leaves: Mapping[str, Tensor]) -> tuple[Tensor, None]:
        """Return features ``[n, width]``, and that there is nothing to choose from."""
        image = leaves[self._leaf].permute(0, 3, 1, 2).float()  # [n, C, H, W]
        cells = self.tower(image * self._factor if self._factor != 1.0 else image).flatten(2)
        if self._pool == "flatten":
            return self.layers(cells.flatten(1)), None
        return self.layers(cells.mean(2) if self._pool == "mean" else cells.amax(2)), None

    def update_statistics(self, leaves: Mapping[str, Tensor]) -> None:
        """Do nothing: images have no statistics."""


class EntityEncoder(nn.Module):
    """The same hidden layers for every entity, of which those present are pooled [AET figure 2, HoK §4].

    The last layer's units split into an entity's representation and its key. Features of absent entities reach
    nothing; where none is present the pooled representation is 0.

    Args:
        leaves: The spaces of the leaves.
        config: Sizes and pooling.
        style: Of the network.
    """

    def __init__(self, leaves: Mapping[str, Space[Any]], config: EntityPart, style: Style) -> None:
        super().__init__()
        count, size = leaves[config.leaf].shape or ()
        self._config = config
        self._factor = scale_of(leaves[config.leaf], scale=style.scale)
        self._represents = config.hidden[-1]
        self.width = self._represents * (count if config.pool == "concat" else 1)
        self.norm = style.norm([True] * size)
        units = (*config.hidden[:-1], self._represents + config.key)
        self.layers = hidden_layers(size, units, style.activation)
        attends = config.pool == "attention"
        self.score = initialised(nn.Linear(self._represents, 1), 1.0) if attends else None

    def forward(self, leaves: Mapping[str, Tensor]) -> tuple[Tensor, Choices | None]:
        """Return features ``[n, width]``, and the keys where entities have one."""
        config = self._config
        entities, present = self._read(leaves)
        if present is not None:
            entities = torch.where(present.unsqueeze(2), entities, 0.0)  # so that not even NaN gets through
        if self.norm is not None:
            entities = self.norm(entities)
        encoded: Tensor = self.layers(entities.flatten(0, 1)).reshape(*entities.shape[:2], -1)  # [n, E, width + key]
        represented, keys = torch.split(encoded, [self._represents, config.key], dim=2)
        return self._pooled(represented, present), Choices(keys, present) if config.key else None

    def update_statistics(self, leaves: Mapping[str, Tensor]) -> None:
        """Add the entities present to the statistics, if there are any."""
        if self.norm is not None:
            entities, present = self._read(leaves)
            self.norm.add(entities.flatten(0, 1) if present is None else entities[present])

    def _read(self, leaves: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        """Return the entities ``[n, E, f]``, and which of them are there ``[n, E] bool``; None: all."""
        config = self._config
        entities = leaves[config.leaf].float()
        if self._factor != 1.0:
            entities = entities * self._factor
        return entities, leaves[config.present] != 0 if config.present else None

    def _pooled(self, represented: Tensor, present: Tensor | None) -> Tensor:
        if present is None:
            present = torch.ones(represented.shape[:2], dtype=torch.bool, device=represented.device)
        there = present.unsqueeze(2)  # [n, E, 1]
        if self._config.pool == "max":
            highest = represented.masked_fill(~there, -torch.inf).amax(1)
            return torch.where(there.any(1), highest, 0.0)
        kept = torch.where(there, represented, 0.0)
        if self._config.pool == "concat":
            return kept.flatten(1)
        if self._config.pool == "mean":
            return kept.sum(1) / there.sum(1).clamp(min=1)
        assert self.score is not None
        scores: Tensor = self.score(represented.flatten(0, 1)).reshape(*represented.shape[:2], 1)
        weights = scores.masked_fill(~there, _ABSENT).softmax(1)
        return (weights * kept).sum(1)
