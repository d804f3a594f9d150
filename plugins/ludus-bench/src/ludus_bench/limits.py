"""Limits: the rates of matrix products alone, and of parts that run one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ludus_bench.gemm import Gemm, numpy_task, torch_task
from ludus_bench.report import Limit
from ludus_bench.timing import Rate, Task

__all__ = ["gemm_limit", "gemm_tasks", "harmonic"]

_PRODUCTS = "products in "


def harmonic(*rates: float) -> float:
    """Return the rate of several tasks that run one after another for every unit: ``1 / (1/a + 1/b + …)``."""
    return 1.0 / sum(1.0 / rate for rate in rates)


def gemm_tasks(gemms: Sequence[Gemm], units: float, *, device: str = "cpu", prefix: str = "") -> dict[str, Task]:
    """Return tasks that compute matrix products only, by library; empty if there are no products.

    Args:
        gemms: Products to compute.
        units: Number of units of one round.
        device: Torch device; NumPy multiplies on the CPU only.
        prefix: Prefix of the names.
    """
    if not gemms:
        return {}
    if device == "cpu":
        tasks = {"numpy": numpy_task(gemms, units), "torch": torch_task(gemms, units)}
    else:
        tasks = {
            "torch": torch_task(gemms, units, device=device),
            "torch, bfloat16": torch_task(gemms, units, device=device, dtype=torch.bfloat16),
        }
    return {f"{prefix}{_PRODUCTS}{name}": task for name, task in tasks.items()}


def gemm_limit(rates: Mapping[str, Rate], *, scale: float = 1.0, prefix: str = "") -> Limit | None:
    """Return the rate of the fastest library as a limit; None if there were no products.

    Args:
        rates: Results of `measure`, including those of `gemm_tasks`.
        scale: Factor of the rate.
        prefix: Prefix that was passed to `gemm_tasks`.
    """
    start = f"{prefix}{_PRODUCTS}"
    products = {name: rate.median for name, rate in rates.items() if name.startswith(start)}
    if not products:
        return None
    best = max(products, key=lambda name: products[name])
    return Limit(value=scale * products[best], description=f"the matrix products alone, in {best.removeprefix(start)}")
