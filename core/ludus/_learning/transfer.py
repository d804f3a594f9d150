"""Start a player from the weights of another one, whose network may have other inputs [DIS §3.2.1].

The rule, by the names of arrays; the arrays of one layer have names that differ in the last part only:

- A layer whose arrays have equal shapes is copied. A layer that does not fit, or that only the player has, keeps its
  start values. Arrays that only the source has are dropped.
- Columns of a first layer are matched by observation leaf, if the network has `ludus.network.NamedInputs`. The columns
  of leaves that the source reads too are copied, all others are 0, so that equal inputs give equal outputs. Statistics
  of new columns keep their start values. Of a leaf that grew, the last columns are the old ones if it has a new first
  axis, as frames have, and the first ones otherwise. A layer that does not read all leaves of the source does not fit.
- If no layer fits, the player cannot start from these weights. Arrays of the model itself, such as the scale of its
  values, do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from attrs import frozen

from ludus.algorithm import Weights
from ludus.errors import ModelError
from ludus.network import InputColumns, NamedInputs

if TYPE_CHECKING:
    from torch import nn

#: Columns of first layers by the last part of the names of their arrays.
InputLayout: TypeAlias = "Mapping[str, Sequence[InputColumns]]"


@frozen(kw_only=True)
class Transfer:
    """Weights to start from.

    Attributes:
        weights: All arrays of the player.
        grown: Layers with columns for new inputs.
        kept: Layers of the player that keep their start values, with the reason of those that do not fit.
        dropped: Layers of the source that the player does not have.
    """

    weights: dict[str, np.ndarray]
    grown: tuple[str, ...]
    kept: Mapping[str, str]
    dropped: tuple[str, ...]

    @property
    def misfits(self) -> dict[str, str]:
        """Return the layers that both have but that do not fit, with the reason."""
        return {layer: reason for layer, reason in self.kept.items() if reason}

    def describe(self) -> str:
        """Return one line."""
        parts = [f"it keeps its own {_enumerate(self.kept)}" if self.kept else "its weights fit"]
        parts += [f"new inputs of {', '.join(self.grown)} start at 0"] if self.grown else []
        parts += [f"{', '.join(self.dropped)} of the source is not used"] if self.dropped else []
        return "; ".join(parts)


def _enumerate(kept: Mapping[str, str]) -> str:
    return ", ".join(f"{layer} ({reason})" if reason else layer for layer, reason in kept.items())


def input_layout(modules: Iterable[nn.Module]) -> InputLayout:
    """Return the columns of the first layers of networks; names that stand for different columns are left out."""
    layout: dict[str, Sequence[InputColumns]] = {}
    ambiguous = set()
    for module in modules:
        for path, part in module.named_modules():
            for name, columns in part.input_columns().items() if isinstance(part, NamedInputs) else ():
                key = f"{path}.{name}" if path else name
                if layout.setdefault(key, columns) != columns:
                    ambiguous.add(key)
    return {name: columns for name, columns in layout.items() if name not in ambiguous}


def transfer_weights(own: Weights, source: Weights, *, own_inputs: InputLayout, source_inputs: InputLayout) -> Transfer:
    """Return the weights of a player that starts from those of another one, by the rule of this module.

    Args:
        own: Start weights of the player.
        source: Weights to start from.
        own_inputs: Columns of the player's first layers.
        source_inputs: Columns of the first layers of the source.

    Raises:
        ModelError: No layer fits.
    """
    columns = {name: (_columns(name, own_inputs), _columns(name, source_inputs)) for name in own}
    copied: dict[str, np.ndarray] = {}
    kept: dict[str, str] = {}
    for layer, names in _layers(own).items():
        try:
            copied |= {name: _transfer_array(own[name], source.get(name), *columns[name]) for name in names}
        except ModelError as error:
            kept[layer] = str(error)
    of_modules = {name for name in own if "." in name} or own.keys()
    if not of_modules & copied.keys():
        raise ModelError(f"no layer fits: {_enumerate(kept)}")
    grown = _layers(name for name in copied if columns[name][0] != columns[name][1])
    dropped = _layers(source).keys() - _layers(own).keys()
    return Transfer(weights={**own, **copied}, grown=tuple(grown), kept=kept, dropped=tuple(sorted(dropped)))


def _layers(weights: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of arrays by layer; an array of the model itself is a layer of its own."""
    layers: dict[str, list[str]] = {}
    for name in weights:
        layers.setdefault(name.rpartition(".")[0] or name, []).append(name)
    return layers


def _transfer_array(
    own: np.ndarray, source: np.ndarray | None, new: Sequence[InputColumns], old: Sequence[InputColumns]
) -> np.ndarray:
    """Return an array of the source, with the player's columns.

    Raises:
        ModelError: It does not fit; with an empty message if the source has no such array.
    """
    if source is None:
        raise ModelError("")
    if new == old:
        _check_shape(own, source)
        return source
    return _transfer_columns(own, source, new=new, old=old)


def _columns(name: str, layout: InputLayout) -> tuple[InputColumns, ...]:
    """Return the columns of an array, found by the longest last part of its name; empty if they are unknown."""
    parts = name.split(".")
    endings = (".".join(parts[first:]) for first in range(len(parts)))
    return tuple(next((layout[ending] for ending in endings if ending in layout), ()))


def _check_shape(own: np.ndarray, source: np.ndarray) -> None:
    if own.shape != source.shape:
        raise ModelError(f"shape {[*source.shape]} instead of {[*own.shape]}")


def _transfer_columns(
    own: np.ndarray, source: np.ndarray, *, new: Sequence[InputColumns], old: Sequence[InputColumns]
) -> np.ndarray:
    """Return an array whose columns are those of the source by leaf, and 0 for new inputs."""
    axis = min(1, own.ndim - 1)
    _check_columns(own, source, axis, new=new, old=old)
    own, source = np.moveaxis(own, axis, 0), np.moveaxis(source, axis, 0)
    known = {(columns.source, columns.shape is None): (columns, rows) for columns, rows in _slices(old)}
    result = own.copy() if own.ndim == 1 else np.zeros_like(own)  # statistics have start values of their own
    for columns, rows in _slices(new):
        key = columns.source, columns.shape is None
        if key in known:
            before, old_rows = known.pop(key)
            result[_kept_rows(columns, before, rows)] = source[old_rows]
    if known:
        raise ModelError(f"it does not read {', '.join(name for name, _ in known)}")
    return np.ascontiguousarray(np.moveaxis(result, 0, axis))


def _check_columns(
    own: np.ndarray, source: np.ndarray, axis: int, *, new: Sequence[InputColumns], old: Sequence[InputColumns]
) -> None:
    """Check that all columns are known and that everything else has the same shape.

    Raises:
        ModelError: One of both is wrong.
    """
    widths = [sum(columns.width for columns in layout) for layout in (new, old)]
    if not (new and old) or [own.shape[axis], source.shape[axis]] != widths:
        _check_shape(own, source)
        raise ModelError("other inputs of unknown columns")
    units, expected = (array.shape[:axis] + array.shape[axis + 1 :] for array in (source, own))
    if units != expected:
        raise ModelError(f"{[*units]} units instead of {[*expected]}")


def _slices(layout: Sequence[InputColumns]) -> list[tuple[InputColumns, slice]]:
    stops = np.cumsum([columns.width for columns in layout]).tolist()
    return [(columns, slice(stop - columns.width, stop)) for columns, stop in zip(layout, stops, strict=True)]


def _kept_rows(new: InputColumns, old: InputColumns, rows: slice) -> slice:
    """Return the place of the old columns of a leaf among its new ones.

    Raises:
        ModelError: The leaf has fewer columns, or other features are read.
    """
    if new.width == old.width:
        return rows
    if new.shape is None or old.shape is None or new.width < old.width:
        raise ModelError(f"{old.width} columns of {old.source} instead of {new.width}")
    has_frames = new.shape[1:] == old.shape and len(new.shape) == len(old.shape) + 1
    return slice(rows.stop - old.width, rows.stop) if has_frames else slice(rows.start, rows.start + old.width)
