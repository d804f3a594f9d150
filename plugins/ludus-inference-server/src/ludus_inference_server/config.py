"""Options of the inference server."""

from __future__ import annotations

from attrs import frozen
from ludus.option import at_least, one_of, option, whole


@frozen(kw_only=True)
class ServerConfig:
    """``[sampling.server]``: device, runtime and micro-batches of the server."""

    device: str = option("cpu", one_of("cpu", "cuda"), help="device of the networks", device=True)
    runtime: str = option(
        "auto",
        one_of("auto", "lean", "eager", "compile"),
        help="runtime of the networks; auto: lean on cpu, CUDA graphs on cuda; lean is for cpu only",
    )
    precision: str = option("fp32", one_of("fp32", "bf16"), help="precision of products on cuda; cpu: fp32")
    max_rows: int = option(
        1024,
        whole(1, 1_000_000),
        help="rows at which a micro-batch is evaluated at once; larger requests are not split",
    )
    deadline_ms: int = option(1, at_least(0), help="longest wait after the first request of a micro-batch, in ms")
    threads: int = option(1, whole(1, 1024), help="torch threads of the server")
    cache_mb: int = option(512, at_least(1), help="size limit of unused models, in MiB")
