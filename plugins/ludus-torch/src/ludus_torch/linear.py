"""Faster linear layers on the CPU: layers in a row and their activations run as one autograd function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
from ludus.errors import ContractError
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

#: What can multiply in linear layers; ``"plain"`` leaves layers as they are.
KERNELS = ("onednn", "torch", "plain")

# With a single output, the fixed cost of the call exceeds what fusing saves.
_MIN_OUTPUTS = 2
# Rounding the factors of narrower layers (heads) to bfloat16 takes longer than it saves.
_MIN_ROUNDED_WIDTH = 32


@cache
def has_onednn(dtype: torch.dtype = torch.float32) -> bool:
    """Return whether oneDNN's linear layer is available and computes what torch's does, in `dtype`."""
    generator = torch.Generator().manual_seed(0)
    inputs, weight = torch.randn(4, 3, generator=generator), torch.randn(5, 3, generator=generator)
    try:
        outputs = _onednn_product(inputs.to(dtype), weight.to(dtype), None, "none", [])
    except (AttributeError, NotImplementedError, RuntimeError):  # the build or the processor lacks it
        return False
    atol = 1e-5 if dtype is torch.float32 else 0.1
    return torch.allclose(outputs.float(), functional.linear(inputs, weight), atol=atol)


def has_bf16() -> bool:
    """Return whether the processor multiplies bfloat16 natively."""
    capabilities: Mapping[str, Any] = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def choose_kernels(requested: str, device: torch.device) -> str:
    """Return the kernels for layers on `device`, one of `KERNELS`.

    Args:
        requested: One of `KERNELS`, or ``"auto"``: oneDNN, but torch on x86 without AVX-512, where oneDNN is slower.
        device: Device of the layers. Layers stay plain on anything but a CPU.

    Raises:
        ContractError: `requested` is none of these.
    """
    if requested not in (*KERNELS, "auto"):
        raise ContractError(f"cpu kernels: expected auto or one of {', '.join(KERNELS)}, got {requested!r}")
    if device.type != "cpu":
        return "plain"
    if requested != "auto":
        return requested
    return "torch" if torch.backends.cpu.get_cpu_capability() == "AVX2" else "onednn"


def fuse_linear_layers(
    model: nn.Module,
    kernels: str,
    *,
    hidden_dtype: torch.dtype = torch.float32,
    backward_dtype: torch.dtype = torch.float32,
) -> None:
    """Make the CPU linear layers of `model` faster, in place.

    Names, parameters and, up to rounding, results stay the same.

    Args:
        model: Any module. Only plain `nn.Linear` layers and `nn.Sequential` containers change. A changed container does
            not call the hooks of the layers that it evaluates together.
        kernels: One of `KERNELS`. ``"onednn"`` changes nothing where oneDNN does not support `hidden_dtype`, and
            ``"plain"`` changes nothing unless `backward_dtype` is bfloat16.
        hidden_dtype: Dtype of the products and outputs of layers with an activation. Other layers (heads) use float32.
        backward_dtype: Dtype of the factors of gradient products of float32 layers, narrow layers excepted.
    """
    if (kernels == "plain" and backward_dtype is torch.float32) or (
        kernels == "onednn" and not has_onednn(hidden_dtype)
    ):
        return
    for module in list(model.modules()):
        if type(module) is nn.Sequential:
            module.__class__ = _FusedSequential
            vars(module)["hidden_dtype"] = hidden_dtype
        elif type(module) is nn.Linear:
            module.__class__ = _FusedLinear
            narrow = min(module.in_features, module.out_features) < _MIN_ROUNDED_WIDTH
            vars(module).update(kernels=kernels, backward_dtype=torch.float32 if narrow else backward_dtype)


def apply_heads(heads: Mapping[str, nn.Module], features: Tensor) -> dict[str, Tensor]:
    """Return the outputs of several layers on the same features, by name.

    Linear layers that `fuse_linear_layers` has changed share one product.

    Args:
        heads: Modules that take `features`.
        features: ``[n, …]``.
    """
    fused = [head for head in heads.values() if type(head) is _FusedLinear and head.is_joinable]
    if not (1 < len(fused) == len(heads) and _is_supported(features)):
        return {name: head(features) for name, head in heads.items()}
    weight, bias = (torch.cat([getattr(head, name) for head in fused]) for name in ("weight", "bias"))
    joined = _fused_layers(features, [_Layer(kernels=fused[0].kernels)], [weight, bias])
    outputs = torch.split(joined, [head.out_features for head in fused], dim=1)
    return dict(zip(heads, outputs, strict=True))


class _FusedSequential(nn.Sequential):
    """Evaluates linear layers in a row, and the activations behind them, together."""

    hidden_dtype: torch.dtype

    def forward(self, input: Tensor) -> Tensor:
        """Return the output of the last module."""
        modules: list[Any] = list(self)
        outputs = input
        while modules:
            row: list[tuple[_FusedLinear, nn.Module | None]] = []
            while modules and _is_supported(outputs) and isinstance(modules[0], _FusedLinear) and modules[0].is_wide:
                layer = modules.pop(0)
                row.append((layer, modules.pop(0) if modules and _activation_name(modules[0]) else None))
            outputs = _evaluate(row, outputs, self.hidden_dtype) if row else modules.pop(0)(outputs)
        return outputs


class _FusedLinear(nn.Linear):
    """A linear layer that uses other kernels for inputs that these support."""

    kernels: str
    backward_dtype: torch.dtype

    @property
    def is_wide(self) -> bool:
        """Return whether the layer has enough outputs to gain from fusing."""
        return self.out_features >= _MIN_OUTPUTS

    @property
    def is_joinable(self) -> bool:
        """Return whether the layer can share one product with others."""
        return self.backward_dtype is torch.float32 and self.bias is not None

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input @ weight.T + bias``."""
        if self.is_wide and _is_supported(input):
            return _evaluate([(self, None)], input, torch.float32)
        return super().forward(input)


class _Layer(NamedTuple):  # torch.compile cannot trace the construction of frozen attrs classes
    """How a linear layer and its activation are computed.

    Attributes:
        kernels: One of `KERNELS`.
        activation: ``"none"``, ``"tanh"``, ``"relu"`` or ``"leaky_relu"``.
        slope: Negative slope of ``"leaky_relu"``.
        dtype: Dtype of the factors of the forward product.
        backward_dtype: Dtype of the factors of the gradient products.
    """

    kernels: str
    activation: str = "none"
    slope: float = 0.0
    dtype: torch.dtype = torch.float32
    backward_dtype: torch.dtype = torch.float32

    @property
    def scalars(self) -> list[float]:
        """Return the parameters of the activation."""
        return [self.slope] if self.activation == "leaky_relu" else []


def _is_supported(inputs: Tensor) -> bool:
    return inputs.dim() == 2 and inputs.is_floating_point() and inputs.device.type == "cpu"


def _activation_name(activation: nn.Module | None) -> str | None:
    """Return the name of an activation that is computed with its layer, None for any other module."""
    if activation is None:
        return "none"
    if type(activation) is nn.LeakyReLU and activation.negative_slope <= 0:
        return None
    return {nn.Tanh: "tanh", nn.ReLU: "relu", nn.LeakyReLU: "leaky_relu"}.get(type(activation))


def _evaluate(
    row: Sequence[tuple[_FusedLinear, nn.Module | None]], inputs: Tensor, hidden_dtype: torch.dtype
) -> Tensor:
    """Return the outputs of linear layers in a row, each with a supported activation or None."""
    layers = [
        _Layer(
            kernels=layer.kernels,
            activation=_activation_name(activation) or "none",
            slope=getattr(activation, "negative_slope", 0.0),
            dtype=torch.float32 if activation is None else hidden_dtype,
            backward_dtype=layer.backward_dtype,
        )
        for layer, activation in row
    ]
    return _fused_layers(inputs, layers, [parameter for layer, _ in row for parameter in (layer.weight, layer.bias)])


def _fused_layers(inputs: Tensor, layers: Sequence[_Layer], parameters: Sequence[Tensor | None]) -> Tensor:
    """Return the outputs of layers in a row; `parameters` are the weight and the bias of each."""
    outputs: Tensor = _FusedLayers.apply(inputs, tuple(layers), *parameters)  # type: ignore[no-untyped-call]
    return outputs


class _FusedLayers(torch.autograd.Function):
    """Linear layers and activations in a row.

    The gradients between the layers are private, so that activations change them in place instead of allocating.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, layers: tuple[_Layer, ...], *parameters: Any) -> Tensor:
        saved, outputs = [], inputs
        with _without_autocast():
            for layer, weight, bias in zip(layers, parameters[::2], parameters[1::2], strict=True):
                read, matrix = outputs.to(layer.dtype), weight.to(layer.dtype)
                added = None if bias is None else bias.to(layer.dtype)
                outputs = _product(read, matrix, added, layer.activation, layer.scalars, kernels=layer.kernels)
                saved += [read, matrix, outputs]
        ctx.save_for_backward(*saved)
        ctx.layers, ctx.dtypes = layers, (inputs.dtype, *(layer.dtype for layer in layers))
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> tuple[Tensor | None, ...]:
        parameter_gradients: list[Tensor | None] = []
        saved, last = ctx.saved_tensors, len(ctx.layers) - 1
        for index in range(last, -1, -1):
            layer, (inputs, weight, outputs) = ctx.layers[index], saved[3 * index : 3 * index + 3]
            needed = (index > 0 or ctx.needs_input_grad[0], *ctx.needs_input_grad[2 + 2 * index : 4 + 2 * index])
            gradient = _activation_backward(gradient, outputs, layer, in_place=index < last)
            gradient, *found = _layer_backward(gradient, inputs, weight, layer, needed)
            gradient = None if gradient is None else gradient.to(ctx.dtypes[index])
            parameter_gradients = [*found, *parameter_gradients]
        return gradient, None, *parameter_gradients


def _without_autocast() -> AbstractContextManager[object]:
    return torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext()


def _layer_backward(
    gradient: Tensor, inputs: Tensor, weight: Tensor, layer: _Layer, needed: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Return the needed gradients of inputs, weight and bias.

    Args:
        gradient: Gradient before the activation, ``[n, outputs]``.
        inputs: Inputs of the layer, ``[n, inputs]``.
        weight: ``[outputs, inputs]``.
        layer: How the layer is computed.
        needed: Whether inputs, weight and bias need a gradient.
    """
    needs_inputs, needs_weight, needs_bias = needed
    bias_gradient = gradient.sum(0, dtype=torch.float32) if needs_bias else None
    kernels = layer.kernels
    if layer.backward_dtype is torch.bfloat16:  # torch calls oneDNN for bfloat16 where the processor supports it
        gradient, weight, inputs = gradient.bfloat16(), weight.bfloat16(), inputs.bfloat16()
        kernels = "torch"
    elif len(weight) < _MIN_ROUNDED_WIDTH and kernels == "onednn":
        kernels = "torch"  # oneDNN is slow where the sums are so short
    weight_gradient = _outer(gradient, inputs, kernels=kernels).float() if needs_weight else None
    return _product(gradient, weight.t(), kernels=kernels) if needs_inputs else None, weight_gradient, bias_gradient


def _activation_backward(gradient: Tensor, outputs: Tensor, layer: _Layer, *, in_place: bool) -> Tensor:
    """Return the gradient before an activation, given the gradient after it and the activation's outputs."""
    if layer.activation == "none":
        return gradient
    derivative, arguments = {
        "tanh": (torch.ops.aten.tanh_backward, ()),
        "relu": (torch.ops.aten.threshold_backward, (0,)),
        "leaky_relu": (torch.ops.aten.leaky_relu_backward, (layer.slope, True)),
    }[layer.activation]
    if in_place and not torch.compiler.is_compiling():
        derivative.grad_input(gradient, outputs, *arguments, grad_input=gradient)
        return gradient
    result: Tensor = derivative(gradient, outputs, *arguments)
    return result


def _outer(gradient: Tensor, inputs: Tensor, *, kernels: str) -> Tensor:
    """Return ``gradient.T @ inputs``."""
    if kernels != "onednn" or gradient.shape[1] <= inputs.shape[1]:  # oneDNN transposes the narrower factor faster
        return _product(gradient.t(), inputs.t(), kernels=kernels)
    return _product(inputs.t(), gradient.t(), kernels=kernels).t()


def _product(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str = "none",
    scalars: Sequence[float] = (),
    *,
    kernels: str,
) -> Tensor:
    """Return ``activation(inputs @ weight.T + bias)``."""
    if kernels == "onednn":
        compute = torch.ops.ludus.product if torch.compiler.is_compiling() else _onednn_product
        outputs: Tensor = compute(inputs, weight, bias, activation, list(scalars))
        return outputs
    outputs = functional.linear(inputs, weight, bias)
    if activation == "tanh":
        return outputs.tanh_()
    if activation == "relu":
        return outputs.relu_()
    return functional.leaky_relu_(outputs, *scalars) if activation == "leaky_relu" else outputs


def _onednn_product(
    inputs: Tensor, weight: Tensor, bias: Tensor | None, activation: str, scalars: list[float]
) -> Tensor:
    outputs: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, activation, scalars, "")
    return outputs


# torch.compile supports oneDNN's own operator only with constant weights, hence this alias.
_LIBRARY = torch.library.Library("ludus", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "product(Tensor inputs, Tensor weight, Tensor? bias, str activation, float[] scalars) -> Tensor"
)
_LIBRARY.impl("product", _onednn_product, "CPU")  # type: ignore[no-untyped-call]
_LIBRARY.impl(  # type: ignore[no-untyped-call]
    "product", lambda inputs, weight, *_: inputs.new_empty(inputs.shape[0], weight.shape[0]), "Meta"
)
