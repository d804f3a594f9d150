"""How networks compute on a device: kernels, dtypes, CUDA graphs."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from attrs import frozen
from ludus_torch.linear import choose_kernels, fuse_linear_layers, has_bf16
from torch import nn

from ludus_ppo.config import PPOConfig


@frozen(kw_only=True)
class Numerics:
    """What the options mean on a device.

    Attributes:
        device: Device of the trainer.
        kernels: Kernels of linear layers, one of `ludus_torch.linear.KERNELS`.
        forward_dtype: Dtype of what networks multiply in the forward pass.
        backward_dtype: Dtype of the factors of gradient products of linear layers on a CPU.
        graphed: Whether gradient steps run as CUDA graphs.
    """

    device: torch.device
    kernels: str
    forward_dtype: torch.dtype
    backward_dtype: torch.dtype
    graphed: bool

    @classmethod
    def choose(cls, config: PPOConfig, device: torch.device) -> Numerics:
        """Return the numerics that the options ask for."""
        precision, kernels = _choose_precision(config), config.cpu_kernels
        if kernels == "auto" and (precision == "bf16" or config.compile):
            kernels = "onednn"
        rounds_gradients = precision == "bf16-backward" and device.type == "cpu"
        return cls(
            device=device,
            kernels=choose_kernels(kernels, device),
            forward_dtype=torch.bfloat16 if precision == "bf16" else torch.float32,
            backward_dtype=torch.bfloat16 if rounds_gradients else torch.float32,
            graphed=config.cuda_graphs and device.type == "cuda" and not config.compile,
        )

    @property
    def few_sizes(self) -> bool:
        """Return whether minibatches should have few different sizes: kernels or graphs are made for every size."""
        return self.kernels == "onednn" or self.backward_dtype is torch.bfloat16 or self.device.type == "cuda"

    def fuse_layers(self, module: nn.Module) -> None:
        """Make the linear layers of `module` faster, in place."""
        fuse_linear_layers(module, self.kernels, hidden_dtype=self.forward_dtype, backward_dtype=self.backward_dtype)

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context in which networks compute."""
        if self.forward_dtype is torch.bfloat16:
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()


def _choose_precision(config: PPOConfig) -> str:
    if config.precision == "auto":
        return "bf16-backward" if has_bf16() else "fp32"
    return config.precision
