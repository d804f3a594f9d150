"""Faster linear layers on CPUs, for trainers: in a row with their activations, products by one of three libraries."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

__all__ = [
    "choose_kernels",
    "cpu_capabilities",
    "evaluate_together",
    "fastest_kernels",
    "has_bf16",
    "has_onednn",
    "numpy_is_slow",
    "use_kernels",
]

# With a single output, the fixed cost of the call exceeds what it saves.
_FEWEST_OUTPUTS = 2
# Gradients of narrower layers, heads, take 32 bits: rounding their factors costs more time than it saves.
_FEWEST_TO_ROUND = 32


@cache
def has_onednn(dtype: torch.dtype = torch.float32) -> bool:
    """Return whether oneDNN's linear layer is there and computes what torch's own does, in `dtype`."""
    generator = torch.Generator().manual_seed(0)
    inputs, weight = torch.randn(4, 3, generator=generator), torch.randn(5, 3, generator=generator)
    try:
        got = _onednn_product(inputs.to(dtype), weight.to(dtype), None, "none", [])
    except (AttributeError, NotImplementedError, RuntimeError):  # a build or processor without it
        return False
    atol = 1e-5 if dtype is torch.float32 else 0.1
    return torch.allclose(got.float(), functional.linear(inputs, weight), atol=atol)


def has_bf16() -> bool:
    """Return whether the processor multiplies bfloat16 natively, which is what makes it worth its rounding."""
    found = cpu_capabilities()
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


def cpu_capabilities() -> Mapping[str, Any]:
    """Return what torch knows of the processor, by torch's names: nothing where it is too old to say."""
    return torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}


@cache
def numpy_is_slow() -> bool:
    """Return whether NumPy's BLAS takes twice as long as torch's own for a product of layers of 256, in one thread.

    On AMD's Zen 1 OpenBLAS takes four times as long where a layer has more than some hundred inputs. Elsewhere the two
    are within a third of each other, so that the answer is the same every time, and equal seeds give equal weights.
    """
    generator = torch.Generator().manual_seed(0)
    inputs, weight = (torch.randn(256, 256, generator=generator) for _ in range(2))
    product = torch.empty(256, 256)
    by_torch = _least_s(lambda: torch.mm(inputs, weight, out=product))
    by_numpy = _least_s(lambda: np.matmul(inputs.numpy(), weight.numpy(), out=product.numpy()))
    return by_numpy > 2 * by_torch


def _least_s(work: Callable[[], object]) -> float:
    def once() -> float:
        began_s = time.thread_time()
        work()
        return time.thread_time() - began_s

    return min(once() for _ in range(10))


def fastest_kernels() -> str:
    """Return what computes linear layers fastest here in 32 bits: ``"onednn"``, ``"numpy"`` or ``"torch"``.

    On x86 without AVX-512 NumPy's BLAS is ahead with one thread, but for some processors, and torch's own with several.
    That is a rule and hardly a measurement, so that equal seeds give equal weights.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX2":
        return "onednn"
    return "numpy" if torch.get_num_threads() == 1 and not numpy_is_slow() else "torch"


def choose_kernels(wanted: str, device: torch.device) -> str:
    """Return what is to compute linear layers in 32 bits: ``"onednn"``, ``"numpy"``, ``"torch"`` or ``"plain"``.

    Args:
        wanted: One of these, or ``"auto"``.
        device: Where the layers lie; anywhere but on the CPU they stay plain.
    """
    if device.type != "cpu":
        return "plain"
    return fastest_kernels() if wanted == "auto" else wanted


def use_kernels(
    model: nn.Module, kernels: str, *, hidden: torch.dtype = torch.float32, backward: torch.dtype = torch.float32
) -> None:
    """Let the linear layers of `model` that lie on the CPU compute faster, in place.

    Names, parameters and results stay the same, the latter up to rounding.

    Args:
        model: Any module. Of its parts only plain `nn.Linear`s change, and `nn.Sequential`s that hold them; these call
            no hooks of what they evaluate together.
        kernels: ``"onednn"``, which changes nothing where the build of torch or the processor lacks it for `hidden`,
            ``"numpy"``, ``"torch"``, or ``"plain"``, which changes nothing but what `backward` says.
        hidden: What a layer with an activation behind it multiplies and returns. The others, heads, take 32 bits.
            With NumPy, float32.
        backward: What layers, but for narrow ones, multiply for gradients where outputs take 32 bits.
    """
    if (kernels == "plain" and backward is torch.float32) or (kernels == "onednn" and not has_onednn(hidden)):
        return
    for module in list(model.modules()):
        if type(module) is nn.Sequential:
            module.__class__ = _Sequential
            vars(module)["hidden"] = hidden
        elif type(module) is nn.Linear:
            module.__class__ = _Linear
            narrow = min(module.in_features, module.out_features) < _FEWEST_TO_ROUND
            vars(module).update(kernels=kernels, backward=torch.float32 if narrow else backward)


class _Sequential(nn.Sequential):
    """Evaluates linear layers in a row together, with the activations behind them."""

    hidden: torch.dtype

    def forward(self, input: Tensor) -> Tensor:
        """Return what the layers make of the input."""
        layers: list[Any] = list(self)
        outputs = input
        while layers:
            row: list[tuple[_Linear, nn.Module | None]] = []
            while layers and _suits(outputs) and isinstance(layers[0], _Linear) and layers[0].is_wide:
                layer = layers.pop(0)
                row.append((layer, layers.pop(0) if layers and _epilogue(layers[0]) else None))
            outputs = _evaluate(row, outputs, hidden=self.hidden) if row else layers.pop(0)(outputs)
        return outputs


class _Linear(nn.Linear):
    """A linear layer that computes with other kernels where they can."""

    kernels: str
    backward: torch.dtype

    @property
    def is_wide(self) -> bool:
        """Return whether other kernels are worth their call."""
        return self.out_features >= _FEWEST_OUTPUTS

    @property
    def is_head(self) -> bool:
        """Return whether its outputs can be some columns of a product with others."""
        return self.backward is torch.float32 and self.bias is not None

    def forward(self, input: Tensor) -> Tensor:
        """Return the outputs."""
        if self.is_wide and _suits(input):
            return _evaluate([(self, None)], input, hidden=torch.float32)
        return super().forward(input)


def _suits(inputs: Tensor) -> bool:
    return inputs.dim() == 2 and inputs.is_floating_point() and inputs.device.type == "cpu"


def _evaluate(row: Sequence[tuple[_Linear, nn.Module | None]], inputs: Tensor, *, hidden: torch.dtype) -> Tensor:
    """Return the outputs of linear layers in a row, each with an activation that has an `_epilogue` or with none."""
    links = []
    for layer, activation in row:
        name, scalars = _epilogue(activation) or ("none", ())
        dtype = torch.float32 if activation is None else hidden
        links.append(_Link(name, scalars, dtype, layer.kernels, layer.backward))
    return _linked(inputs, links, [parameter for layer, _ in row for parameter in (layer.weight, layer.bias)])


def evaluate_together(layers: Mapping[str, nn.Module], inputs: Tensor) -> dict[str, Tensor]:
    """Return what layers make of the same inputs, by their names; heads of which `use_kernels` knows in one product.

    Args:
        layers: Whatever takes the inputs.
        inputs: ``[n, …]``.
    """
    heads = [layer for layer in layers.values() if type(layer) is _Linear and layer.is_head]
    if not (1 < len(heads) == len(layers) and _suits(inputs)):
        return {name: layer(inputs) for name, layer in layers.items()}
    weight, bias = (torch.cat([getattr(head, name) for head in heads]) for name in ("weight", "bias"))
    joined = _linked(inputs, [_Link("none", (), torch.float32, heads[0].kernels, torch.float32)], [weight, bias])
    parts = torch.split(joined, [head.out_features for head in heads], dim=1)
    return dict(zip(layers, parts, strict=True))


def _epilogue(activation: nn.Module | None) -> tuple[str, tuple[float, ...]] | None:
    """Return name and parameters of an activation that comes with its layer; None where it has to be computed apart."""
    if type(activation) is nn.Tanh:
        return "tanh", ()
    if type(activation) is nn.ReLU:
        return "relu", ()
    if type(activation) is nn.LeakyReLU and activation.negative_slope > 0:
        return "leaky_relu", (activation.negative_slope,)
    return None


class _Link(NamedTuple):
    """How a linear layer and the activation behind it are computed."""

    activation: str  # its name, and its parameters
    scalars: tuple[float, ...]
    dtype: torch.dtype  # what is multiplied
    kernels: str
    backward: torch.dtype


def _linked(inputs: Tensor, links: Sequence[_Link], parameters: Sequence[Tensor | None]) -> Tensor:
    """Return what links in a row make of inputs, by the weight and the bias of each."""
    outputs: Tensor = _LinksFunction.apply(inputs, tuple(links), *parameters)  # type: ignore[no-untyped-call]
    return outputs


class _LinksFunction(torch.autograd.Function):
    """Linear layers and activations in a row with their gradient.

    Nobody else reads the gradients in between, so that activations change them where they are: new memory is slow.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, links: tuple[_Link, ...], *parameters: Any) -> Tensor:
        saved, outputs = [], inputs
        with _as_given():
            for link, weight, bias in zip(links, parameters[::2], parameters[1::2], strict=True):
                read, matrix = outputs.to(link.dtype), weight.to(link.dtype)
                added = None if bias is None else bias.to(link.dtype)
                outputs = _product(read, matrix, added, link.activation, link.scalars, kernels=link.kernels)
                saved += [read, matrix, outputs]
        ctx.save_for_backward(*saved)
        ctx.links, ctx.dtypes = links, (inputs.dtype, *(link.dtype for link in links))
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> tuple[Tensor | None, ...]:
        found: list[Tensor | None] = []
        saved, last = ctx.saved_tensors, len(ctx.links) - 1
        for number in range(last, -1, -1):
            link, (inputs, weight, outputs) = ctx.links[number], saved[3 * number : 3 * number + 3]
            wanted = (number > 0 or ctx.needs_input_grad[0], *ctx.needs_input_grad[2 + 2 * number : 4 + 2 * number])
            gradient = _before(gradient, outputs, link, in_place=number < last)
            gradient, *of_parameters = _gradients(gradient, inputs, weight, link, wanted)
            gradient = None if gradient is None else gradient.to(ctx.dtypes[number])
            found = [*of_parameters, *found]
        return gradient, None, *found


def _as_given() -> AbstractContextManager[object]:
    """Return a context in which products take what they are given, whatever the surroundings want multiplied."""
    return torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext()


def _gradients(
    gradient: Tensor, inputs: Tensor, weight: Tensor, link: _Link, wanted: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Return the gradients of inputs, weight and bias that are wanted from that in front of the activation."""
    wants_inputs, wants_weight, wants_bias = wanted
    of_bias = gradient.sum(0, dtype=torch.float32) if wants_bias else None
    kernels = link.kernels
    if link.backward is torch.bfloat16:  # torch's products are oneDNN's where that knows bfloat16, and right elsewhere
        gradient, weight, inputs = gradient.bfloat16(), weight.bfloat16(), inputs.bfloat16()
        kernels = "torch"
    elif len(weight) < _FEWEST_TO_ROUND and kernels == "onednn":
        kernels = "torch"  # oneDNN is slow where the sums are so short
    of_weight = _outer(gradient, inputs, kernels=kernels).float() if wants_weight else None
    return _product(gradient, weight.t(), kernels=kernels) if wants_inputs else None, of_weight, of_bias


def _before(gradient: Tensor, outputs: Tensor, link: _Link, *, in_place: bool) -> Tensor:
    """Return the gradient in front of an activation from that behind it."""
    if link.activation == "none":
        return gradient
    derivative, arguments = {
        "tanh": (torch.ops.aten.tanh_backward, ()),
        "relu": (torch.ops.aten.threshold_backward, (0,)),
        "leaky_relu": (torch.ops.aten.leaky_relu_backward, (*link.scalars, True)),
    }[link.activation]
    if in_place and not torch.compiler.is_compiling():
        derivative.grad_input(gradient, outputs, *arguments, grad_input=gradient)
        return gradient
    found: Tensor = derivative(gradient, outputs, *arguments)
    return found


def _outer(gradient: Tensor, inputs: Tensor, *, kernels: str) -> Tensor:
    """Return ``gradient.T @ inputs``."""
    if inputs.dtype is torch.bfloat16:  # torch's own product is oneDNN's then, without transposing in memory
        return torch.mm(gradient.t(), inputs)
    if kernels != "onednn":
        return _product(gradient.t(), inputs.t(), kernels=kernels)
    if gradient.shape[1] <= inputs.shape[1]:  # the left factor is transposed, so it is the narrower one
        return _product(gradient.t(), inputs.t(), kernels=kernels)
    return _product(inputs.t(), gradient.t(), kernels=kernels).t()


def _product(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    name: str = "none",
    scalars: Sequence[float] = (),
    *,
    kernels: str,
) -> Tensor:
    """Return ``activation(inputs @ weight.T + bias)``."""
    if kernels == "onednn":
        compute = torch.ops.ludus.product if torch.compiler.is_compiling() else _onednn_product
        outputs: Tensor = compute(inputs, weight, bias, name, list(scalars))
        return outputs
    if kernels == "numpy":
        outputs = inputs.new_empty(len(inputs), len(weight))
        np.matmul(inputs.numpy(), weight.detach().numpy().T, out=outputs.numpy())
        if bias is not None:
            outputs += bias
    else:
        outputs = functional.linear(inputs, weight, bias)
    return _activate_(outputs, name, scalars)


def _onednn_product(inputs: Tensor, weight: Tensor, bias: Tensor | None, name: str, scalars: list[float]) -> Tensor:
    outputs: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, name, scalars, "")
    return outputs


def _activate_(outputs: Tensor, name: str, scalars: Sequence[float]) -> Tensor:
    if name == "tanh":  # as 2 sigmoid(2x) - 1: off by 2e-7 at most, in about half of the time
        outputs.mul_(2).sigmoid_().mul_(2).sub_(1)
    elif name == "relu":
        outputs.relu_()
    elif name == "leaky_relu":
        functional.leaky_relu_(outputs, *scalars)
    return outputs


# The same under a name of its own: the compiler knows oneDNN's only with weights that never change.
_LIBRARY = torch.library.Library("ludus", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "product(Tensor inputs, Tensor weight, Tensor? bias, str name, float[] scalars) -> Tensor"
)
_LIBRARY.impl("product", _onednn_product, "CPU")  # type: ignore[no-untyped-call]
_LIBRARY.impl(  # type: ignore[no-untyped-call]
    "product", lambda inputs, weight, *_: inputs.new_empty(inputs.shape[0], weight.shape[0]), "Meta"
)
