"""Include interfaces in an exported file: those that are pure functions of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from ludus.environment import Role
from ludus.interface import Interface, SeatView, has_own_act, is_stateless
from torch import Tensor, nn

from ludus_onnx.flat_module import Arrays
from ludus_onnx.golden import role_behind, sample_rows
from ludus_onnx.traced_array import TracedArray

_CHECKED_ROWS = 8
_OBSERVATION = "observation/"


class FoldedDecisions(nn.Module):
    """A decision module behind interfaces, which read observation and mask; see `ludus.export`.

    Args:
        module: Module that reads what the interfaces return.
        interfaces: Bound interfaces, next to the environment first.
    """

    def __init__(self, module: nn.Module, interfaces: Sequence[Interface]) -> None:
        super().__init__()
        self.module = module
        self._interfaces = tuple(interfaces)

    def forward(
        self, observation: dict[str, Tensor], action_mask: Tensor | None, state: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return outputs and state of the module."""
        observation, action_mask = trace_interfaces(self._interfaces, observation, action_mask)
        outputs, after = self.module(observation, action_mask, state)
        return outputs, after


def trace_interfaces(
    interfaces: Sequence[Interface], observation: Mapping[str, Tensor], action_mask: Tensor | None
) -> tuple[dict[str, Tensor], Tensor | None]:
    """Return observation leaves ``[n, …]`` and mask ``[n, A]`` behind interfaces, by operations of torch.

    Raises:
        TypeError: An interface does something else than the operations of `TracedArray`.
    """
    first = next(iter(observation.values()))
    rows = torch.arange(first.shape[0])
    view = SeatView(
        observation={name: TracedArray(leaf) for name, leaf in observation.items()},  # type: ignore[misc]
        action_mask=None if action_mask is None else TracedArray(action_mask),  # type: ignore[arg-type]
        reward=TracedArray(torch.zeros_like(rows, dtype=torch.float32)),  # type: ignore[arg-type]
    )
    for interface in interfaces:
        view = interface.observe(view, TracedArray(rows))  # type: ignore[arg-type]
    leaves = {name: _tensor(leaf) for name, leaf in view.observation.items()}
    return leaves, None if view.action_mask is None else _tensor(view.action_mask)


def _tensor(leaf: object) -> Tensor:
    if not isinstance(leaf, TracedArray):
        raise TypeError(f"an interface returned {type(leaf).__name__} instead of a traced array")
    return leaf.tensor


def observe_rows(interfaces: Sequence[Interface], rows: Arrays) -> dict[str, np.ndarray]:
    """Return rows behind interfaces, by NumPy; names are those of `ludus_onnx.flat_module.FlatModule`."""
    observation = {
        name.removeprefix(_OBSERVATION): leaf for name, leaf in rows.items() if name.startswith(_OBSERVATION)
    }
    count = len(next(iter(observation.values())))
    view = SeatView(observation=observation, action_mask=rows.get("action_mask"), reward=np.zeros(count, np.float32))
    for interface in interfaces:
        view = interface.observe(view, np.arange(count))
    mask = {} if view.action_mask is None else {"action_mask": view.action_mask}
    state = {name: leaf for name, leaf in rows.items() if name.startswith("state/")}
    return {**{_OBSERVATION + name: leaf for name, leaf in view.observation.items()}, **mask, **state}


def count_foldable(raw_role: Role, interfaces: Sequence[Interface]) -> int:
    """Return how many interfaces a file can include, from the one next to the policy on.

    These are interfaces without state that leave actions unchanged and compute by torch what they compute by NumPy.

    Args:
        raw_role: Role of the environment.
        interfaces: Interfaces of a player, bound to it, next to the environment first.
    """
    count = 0
    for place in reversed(range(len(interfaces))):
        role = role_behind(raw_role, interfaces[:place])
        interface = interfaces[place]
        if has_own_act(interface) or not is_stateless(interface) or not _is_traceable(interface, role):
            break
        count += 1
    return count


def _is_traceable(interface: Interface, role: Role) -> bool:
    """Return whether an interface computes the same by torch on rows of its spaces."""
    rows = sample_rows(role, {}, size=_CHECKED_ROWS, seed=0)
    leaves = {name.removeprefix(_OBSERVATION): torch.from_numpy(leaf) for name, leaf in rows.items()}
    mask = leaves.pop("action_mask", None)
    try:
        expected = observe_rows([interface], rows)
        observation, mask = trace_interfaces([interface], leaves, mask)
    except Exception:  # noqa: BLE001 - code of interfaces may fail in any way on these arrays and rows
        return False
    found = {_OBSERVATION + name: leaf.numpy() for name, leaf in observation.items()}
    if mask is not None:
        found["action_mask"] = mask.numpy()
    return found.keys() == expected.keys() and all(
        leaf.dtype == expected[name].dtype and np.allclose(leaf, expected[name], rtol=1e-5, atol=1e-6)
        for name, leaf in found.items()
    )
