"""Encoders of vectors and of a variable number of entities: from observation leaves to one vector per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from gymnasium import Space, spaces
from ludus.network import InputColumns
from torch import Tensor, nn

from ludus_networks.config import EntityPart, ImagePart, VectorPart
from ludus_networks.images import ImageEncoder
from ludus_networks.layers import (
    EncoderSettings,
    FlatInput,
    flat_width,
    hidden_layers,
    init_orthogonal,
    scale_factor,
)

# logit of an absent entity: its probability is 0 in float32, and half precision can represent the number
_ABSENT_LOGIT = -1e4


class EntityKeys(NamedTuple):
    """Keys of the entities that a label can choose."""

    keys: Tensor  # [n, E, key]
    present: Tensor | None  # [n, E] bool; None: all are present

    def logits(self, query: Tensor) -> Tensor:
        """Return the product of ``query [n, key]`` and every key, ``[n, E]``; very low for absent entities."""
        logits = (self.keys @ query.unsqueeze(2)).squeeze(2)
        return logits if self.present is None else logits.masked_fill(~self.present, _ABSENT_LOGIT)


class VectorEncoder(nn.Module):
    """Leaves flattened and joined, then hidden layers.

    Args:
        leaves: Spaces of all leaves. With normalization, `Box` leaves are normalized.
        config: Names of the leaves to read, and sizes.
        settings: Settings of the network.
    """

    def __init__(self, leaves: Mapping[str, Space[Any]], config: VectorPart, settings: EncoderSettings) -> None:
        super().__init__()
        chosen = {name: leaves[name] for name in config.leaves}
        self._input = FlatInput(chosen, scale=settings.scale)
        self._columns = [InputColumns(name, flat_width(space), space.shape or ()) for name, space in chosen.items()]
        self.width = config.hidden[-1] if config.hidden else self._input.size
        boxes = [(isinstance(space, spaces.Box), flat_width(space)) for space in chosen.values()]
        self.norm = settings.make_norm([is_box for is_box, width in boxes for _ in range(width)])
        self.layers = hidden_layers(self._input.size, config.hidden, settings.activation)
        self._has_layers = bool(config.hidden)

    def forward(self, leaves: Mapping[str, Tensor]) -> tuple[Tensor, None]:
        """Return features ``[n, width]`` and None, as there are no entities."""
        features = self._input(leaves)
        if self.norm is not None:
            features = self.norm(features)
        return self.layers(features) if self._has_layers else features, None

    def update_statistics(self, leaves: Mapping[str, Tensor]) -> None:
        """Add rows to the statistics of the normalization."""
        if self.norm is not None:
            self.norm.add(self._input(leaves))

    def input_columns(self) -> Mapping[str, Sequence[InputColumns]]:
        """Return the columns of the first layer and of the statistics; see `ludus.network.NamedInputs`."""
        return _columns_of(self._columns, has_layers=self._has_layers, has_norm=self.norm is not None)

    def feature_columns(self, name: str) -> Sequence[InputColumns]:
        """Return the columns of the features: those of the leaves without layers."""
        return [InputColumns(name, self.width)] if self._has_layers else self._columns


class EntityEncoder(nn.Module):
    """The same hidden layers for every entity, then a pool over the entities present [AET figure 2, HoK §4].

    The units of the last layer are an entity's features and its key. Absent entities have no influence; if no entity
    is present, the pooled features are 0.

    Args:
        leaves: Spaces of all leaves.
        config: Names of the leaves, sizes and pooling.
        settings: Settings of the network.
    """

    def __init__(self, leaves: Mapping[str, Space[Any]], config: EntityPart, settings: EncoderSettings) -> None:
        super().__init__()
        count, size = leaves[config.leaf].shape or ()
        self._config = config
        self._count = count
        self._columns = [InputColumns(config.leaf, size, (size,))]
        self._factor = scale_factor(leaves[config.leaf], scale=settings.scale)
        self._num_features = config.hidden[-1]
        self.width = self._num_features * (count if config.pool == "concat" else 1)
        self.norm = settings.make_norm([True] * size)
        units = (*config.hidden[:-1], self._num_features + config.key)
        self.layers = hidden_layers(size, units, settings.activation)
        attends = config.pool == "attention"
        self.score = init_orthogonal(nn.Linear(self._num_features, 1), 1.0) if attends else None

    def forward(self, leaves: Mapping[str, Tensor]) -> tuple[Tensor, EntityKeys | None]:
        """Return features ``[n, width]``, and the keys of the entities; None without keys."""
        config = self._config
        entities, present = self._read(leaves)
        if present is not None:
            entities = torch.where(present.unsqueeze(2), entities, 0.0)  # removes NaN of absent entities too
        if self.norm is not None:
            entities = self.norm(entities)
        encoded = self._unflatten(self.layers(entities.flatten(0, 1)))  # [n, E, width + key]
        features, keys = torch.split(encoded, [self._num_features, config.key], dim=2)
        return self._pool(features, present), EntityKeys(keys, present) if config.key else None

    def update_statistics(self, leaves: Mapping[str, Tensor]) -> None:
        """Add the entities present to the statistics of the normalization."""
        if self.norm is not None:
            entities, present = self._read(leaves)
            self.norm.add(entities.flatten(0, 1) if present is None else entities[present])

    def input_columns(self) -> Mapping[str, Sequence[InputColumns]]:
        """Return the features of an entity that the first layer reads; see `ludus.network.NamedInputs`."""
        return _columns_of(self._columns, has_layers=True, has_norm=self.norm is not None)

    def feature_columns(self, name: str) -> Sequence[InputColumns]:
        """Return the columns of the features."""
        return [InputColumns(name, self.width)]

    def _read(self, leaves: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        """Return the entities ``[n, E, f]``, and which of them are present ``[n, E] bool``; None: all."""
        config = self._config
        entities = leaves[config.leaf].float()
        if self._factor != 1.0:
            entities = entities * self._factor
        return entities, leaves[config.present] != 0 if config.present else None

    def _unflatten(self, rows: Tensor) -> Tensor:
        """Return ``[n, E, …]`` from ``[n · E, …]``; by a number, because `torch.fx` cannot unpack a shape."""
        unflattened: Tensor = rows.unflatten(0, (-1, self._count))  # type: ignore[no-untyped-call]
        return unflattened

    def _pool(self, features: Tensor, present: Tensor | None) -> Tensor:
        """Return ``[n, width]`` from the features ``[n, E, f]`` of the entities present."""
        if present is None:
            return self._pool_all(features)
        mask = present.unsqueeze(2)  # [n, E, 1]
        if self._config.pool == "max":
            largest = features.masked_fill(~mask, -torch.inf).amax(1)
            return torch.where(mask.any(1), largest, 0.0)
        masked = torch.where(mask, features, 0.0)
        if self._config.pool == "concat":
            return masked.flatten(1)
        if self._config.pool == "mean":
            return masked.sum(1) / mask.sum(1).clamp(min=1)
        weights = self._scores(features).masked_fill(~mask, _ABSENT_LOGIT).softmax(1)
        return (weights * masked).sum(1)

    def _pool_all(self, features: Tensor) -> Tensor:
        """Return ``[n, width]`` from the features ``[n, E, f]`` of all entities."""
        if self._config.pool == "max":
            return features.amax(1)
        if self._config.pool == "concat":
            return features.flatten(1)
        if self._config.pool == "mean":
            return features.mean(1)
        return (self._scores(features).softmax(1) * features).sum(1)

    def _scores(self, features: Tensor) -> Tensor:
        """Return the logits ``[n, E, 1]`` of attention pooling."""
        assert self.score is not None
        return self._unflatten(self.score(features.flatten(0, 1)))


def _columns_of(
    columns: Sequence[InputColumns], *, has_layers: bool, has_norm: bool
) -> dict[str, Sequence[InputColumns]]:
    names = ["layers.0.weight"] if has_layers else []
    names += ["norm.mean", "norm.variance"] if has_norm else []
    return dict.fromkeys(names, columns)


def make_encoder(
    leaves: Mapping[str, Space[Any]], config: VectorPart | ImagePart | EntityPart, settings: EncoderSettings
) -> VectorEncoder | ImageEncoder | EntityEncoder:
    """Return the encoder that the options describe."""
    if isinstance(config, ImagePart):
        return ImageEncoder(leaves, config, settings)
    if isinstance(config, EntityPart):
        return EntityEncoder(leaves, config, settings)
    return VectorEncoder(leaves, config, settings)
