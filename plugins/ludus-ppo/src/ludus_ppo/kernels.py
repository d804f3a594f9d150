"""Faster linear layers on CPUs: matrix products by oneDNN, the activation behind them in the same pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

__all__ = ["has_bf16", "has_onednn", "use_onednn"]

# With a single output, the fixed cost of oneDNN's call exceeds what it saves.
_FEWEST_OUTPUTS = 2


@cache
def has_onednn() -> bool:
    """Return whether oneDNN's linear layer is there and computes what torch's own does."""
    generator = torch.Generator().manual_seed(0)
    inputs, weight = torch.randn(4, 3, generator=generator), torch.randn(5, 3, generator=generator)
    try:
        return torch.allclose(_product(inputs, weight), functional.linear(inputs, weight), atol=1e-5)
    except (AttributeError, NotImplementedError, RuntimeError):  # a build or processor without it
        return False


def has_bf16(device: torch.device) -> bool:
    """Return whether a device multiplies bfloat16 natively, which is what makes it worth its rounding."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu" or not hasattr(torch.cpu, "get_capabilities"):
        return False
    found = torch.cpu.get_capabilities()
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


def use_onednn(model: nn.Module, *, hidden: torch.dtype = torch.float32) -> None:
    """Let the linear layers of `model` that lie on the CPU compute with oneDNN, in place.

    Names, parameters and results stay the same, the latter up to rounding.

    Args:
        model: Any module. Of its parts only plain `nn.Linear`s change, and `nn.Sequential`s that hold them.
        hidden: What a layer with an activation behind it multiplies and returns. The others, heads, take 32 bits.
    """
    if not has_onednn():
        return
    for module in list(model.modules()):
        if type(module) is nn.Sequential:
            module.__class__ = _Sequential
            vars(module)["hidden"] = hidden
        elif type(module) is nn.Linear and module.out_features >= _FEWEST_OUTPUTS:
            module.__class__ = _Linear


class _Sequential(nn.Sequential):
    """Evaluates a linear layer together with the activation behind it."""

    hidden: torch.dtype

    def forward(self, input: Tensor) -> Tensor:
        """Return what the layers make of the input."""
        layers, outputs = list(self), input
        while layers:
            layer = layers.pop(0)
            if isinstance(layer, _Linear) and layers and _epilogue(layers[0]):
                outputs = layer.evaluate(outputs, layers.pop(0), dtype=self.hidden)
            else:
                outputs = layer(outputs)
        return outputs


class _Linear(nn.Linear):
    """A linear layer that computes with oneDNN where it can."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the outputs."""
        return self.evaluate(input, None, dtype=torch.float32)

    def evaluate(self, inputs: Tensor, activation: nn.Module | None, *, dtype: torch.dtype) -> Tensor:
        """Return the outputs after an activation with an `_epilogue`."""
        if inputs.dim() == 2 and inputs.is_floating_point() and inputs.device.type == "cpu":
            name, scalars = _epilogue(activation) or ("none", ())
            outputs: Tensor = _LinearFunction.apply(inputs.to(dtype), self.weight, self.bias, name, scalars)  # type: ignore[no-untyped-call]
            return outputs
        outputs = super().forward(inputs)
        return outputs if activation is None else activation(outputs)


def _epilogue(activation: nn.Module | None) -> tuple[str, tuple[float, ...]] | None:
    """Return oneDNN's name and parameters of an activation; None where it has to be computed apart."""
    if type(activation) is nn.Tanh:
        return "tanh", ()
    if type(activation) is nn.ReLU:
        return "relu", ()
    if type(activation) is nn.LeakyReLU and activation.negative_slope > 0:
        return "leaky_relu", (activation.negative_slope,)
    return None


class _LinearFunction(torch.autograd.Function):
    """Linear layer and activation with their gradient."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, name: str, scalars: tuple[float, ...]
    ) -> Tensor:
        weight, bias = weight.to(inputs.dtype), None if bias is None else bias.to(inputs.dtype)
        outputs = _product(inputs, weight, bias, name, scalars)
        ctx.save_for_backward(inputs, weight, outputs)
        ctx.name, ctx.scalars = name, scalars
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, outputs = ctx.saved_tensors
        gradient = _before(gradient, outputs, ctx.name, ctx.scalars)  # [n, out]
        wants_inputs, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        return (
            _product(gradient, weight.t()) if wants_inputs else None,
            _outer(gradient, inputs).float() if wants_weight else None,
            gradient.sum(0, dtype=torch.float32) if wants_bias else None,
            None,
            None,
        )


def _before(gradient: Tensor, outputs: Tensor, name: str, scalars: Sequence[float]) -> Tensor:
    """Return the gradient in front of an activation from that behind it."""
    if name == "tanh":
        return torch.ops.aten.tanh_backward(gradient, outputs)  # type: ignore[no-any-return]
    if name == "relu":
        return torch.ops.aten.threshold_backward(gradient, outputs, 0)  # type: ignore[no-any-return]
    if name == "leaky_relu":
        return torch.ops.aten.leaky_relu_backward(gradient, outputs, scalars[0], True)  # type: ignore[no-any-return]
    return gradient


def _outer(gradient: Tensor, inputs: Tensor) -> Tensor:
    """Return ``gradient.T @ inputs``; the left factor is transposed in memory, so it is the narrower one."""
    if inputs.dtype is torch.bfloat16:  # torch's own product is oneDNN's then, without that
        return torch.mm(gradient.t(), inputs)
    if gradient.shape[1] <= inputs.shape[1]:
        return _product(gradient.t(), inputs.t())
    return _product(inputs.t(), gradient.t()).t()


def _product(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    name: str = "none",
    scalars: Sequence[float] = (),
) -> Tensor:
    """Return ``activation(inputs @ weight.T + bias)``."""
    compute = torch.ops.ludus_ppo.product if torch.compiler.is_compiling() else _onednn_product
    outputs: Tensor = compute(inputs, weight, bias, name, list(scalars))
    return outputs


def _onednn_product(inputs: Tensor, weight: Tensor, bias: Tensor | None, name: str, scalars: list[float]) -> Tensor:
    outputs: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, name, scalars, "")
    return outputs


# The same under a name of its own: the compiler knows oneDNN's only with weights that never change.
_LIBRARY = torch.library.Library("ludus_ppo", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "product(Tensor inputs, Tensor weight, Tensor? bias, str name, float[] scalars) -> Tensor"
)
_LIBRARY.impl("product", _onednn_product, "CPU")  # type: ignore[no-untyped-call]
_LIBRARY.impl(  # type: ignore[no-untyped-call]
    "product", lambda inputs, weight, *_: inputs.new_empty(inputs.shape[0], weight.shape[0]), "Meta"
)
