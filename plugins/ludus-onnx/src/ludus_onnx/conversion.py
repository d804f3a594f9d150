"""Write a module as ONNX with one of torch's exporters, and check what was written."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx
import torch
from attrs import field, frozen
from ludus.errors import ModelError

from ludus_onnx.comparison import TOLERANCE, largest_error, make_session
from ludus_onnx.flat_module import Exportable, tensors

#: Exporters of torch, the preferred one first: by torch.export, and by tracing TorchScript.
EXPORTERS = ("dynamo", "torchscript")
DEFAULT_OPSET = 18


@frozen(kw_only=True)
class Converted:
    """A checked ONNX file.

    Attributes:
        data: Content of the file.
        opset: Opset that it was written in, read from the file.
        exporter: Exporter that wrote it, one of `EXPORTERS`.
        max_error: Largest error of ONNX Runtime, see `ludus_onnx.comparison`.
        refused: Why the exporters that were tried before failed, by name.
    """

    data: bytes
    opset: int
    exporter: str
    max_error: float
    refused: dict[str, str] = field(factory=dict)


def convert(exportable: Exportable, *, opset: int = DEFAULT_OPSET, exporters: Sequence[str] = EXPORTERS) -> Converted:
    """Write a module by the first exporter whose file has the opset asked for and computes what torch computes.

    Args:
        exportable: The module and the rows to check it with.
        opset: Opset of the standard operators.
        exporters: Exporters to try, in order.

    Raises:
        ModelError: No exporter succeeds; the message has the reason of each.
    """
    refused: dict[str, str] = {}
    for exporter in exporters:
        try:
            data, max_error = _write(exportable, exporter, opset), 0.0
            max_error = largest_error(make_session(data), exportable)
            if not max_error <= TOLERANCE:
                raise ModelError(f"its outputs differ by {max_error:.1e}, expected at most {TOLERANCE:.0e}")
        except Exception as error:  # noqa: BLE001 - exporters and runtime may fail in any way
            refused[exporter] = _first_line(error)
        else:
            return Converted(data=data, opset=opset, exporter=exporter, max_error=max_error, refused=refused)
    reasons = "; ".join(f"{exporter}: {reason}" for exporter, reason in refused.items())
    raise ModelError(f"no exporter can write this network in opset {opset}: {reasons}")


def _write(exportable: Exportable, exporter: str, opset: int) -> bytes:
    """Return the file that an exporter writes.

    Raises:
        ModelError: The file has another opset, or operators outside of the standard.
        Exception: Whatever the exporter raises.
    """
    with _quiet():
        model = (_write_by_dynamo if exporter == "dynamo" else _write_by_torchscript)(exportable, opset)
    versions = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    written = versions.pop("ai.onnx", None)
    if written != opset:
        raise ModelError(f"it wrote opset {written} instead of {opset}")
    if versions:
        raise ModelError(f"it wrote operators that are not in the standard ({', '.join(versions)})")
    _remove_traces(model)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _write_by_dynamo(exportable: Exportable, opset: int) -> onnx.ModelProto:
    batch = torch.export.Dim("batch")
    rows = {name: array[:3] for name, array in exportable.inputs.items()}
    program = torch.onnx.export(
        exportable.module,
        tensors(rows),
        dynamo=True,
        opset_version=opset,
        input_names=list(rows),
        output_names=list(exportable.outputs),
        dynamic_shapes=(tuple({0: batch} for _ in rows),),
        verbose=False,
    )
    assert program is not None
    return program.model_proto


def _write_by_torchscript(exportable: Exportable, opset: int) -> onnx.ModelProto:
    names = [*exportable.inputs, *exportable.outputs]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            exportable.module,
            tensors({name: array[:3] for name, array in exportable.inputs.items()}),
            path,
            dynamo=False,
            opset_version=opset,
            input_names=list(exportable.inputs),
            output_names=list(exportable.outputs),
            dynamic_axes={name: {0: "batch"} for name in names},
        )
        return onnx.load(path)


def _remove_traces(model: onnx.ModelProto) -> None:
    """Remove what exporters note about the code, such as paths of this machine."""
    for part in (model.graph, *model.graph.node, *model.graph.initializer, *model.graph.value_info):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings of torch's exporters, which name versions and operators that do not concern the user."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _first_line(error: Exception) -> str:
    """Return the cause of an error in one line of at most 300 characters."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = str(cause).strip().splitlines() or [""]
    name = "" if isinstance(cause, ModelError) else f"{type(cause).__name__}: "
    return f"{name}{text[0]}"[:300]
