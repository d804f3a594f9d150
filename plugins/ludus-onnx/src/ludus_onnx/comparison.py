"""Compare what ONNX Runtime computes with what torch computed."""

from __future__ import annotations

import numpy as np
import onnxruntime
from ludus.export import MASKED

from ludus_onnx.flat_module import Arrays, Exportable

#: Largest error of an output, as a share of its scale.
TOLERANCE = 1e-5


def make_session(data: bytes) -> onnxruntime.InferenceSession:
    """Load an ONNX file for one thread of this CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def output_scales(outputs: Arrays) -> dict[str, float]:
    """Return the scale of every output: its largest absolute value in all rows without masked choices, at least 1."""
    return {name: float(np.abs(array[array != MASKED]).max(initial=1.0)) for name, array in outputs.items()}


def largest_error(session: onnxruntime.InferenceSession, exportable: Exportable) -> float:
    """Return the largest absolute error of a file as a share of the scale of its output; infinite for other names.

    All rows are evaluated at once, then the first row alone and a batch of the last seven: files that fix the number
    of rows fail.
    """
    inputs = {entry.name for entry in session.get_inputs()}
    outputs = [entry.name for entry in session.get_outputs()]
    if not inputs <= exportable.inputs.keys() or outputs != list(exportable.outputs):
        return np.inf
    scales, errors = output_scales(exportable.outputs), [0.0]
    for rows in (slice(None), slice(0, 1), slice(-7, None)):
        found = session.run(None, {name: exportable.inputs[name][rows] for name in inputs})
        for name, array in zip(outputs, found, strict=True):
            expected = exportable.outputs[name][rows]
            if array.shape != expected.shape:
                return np.inf
            errors.append(float(np.abs(array - expected).max()) / scales[name])
    return float(np.max(errors))  # NaN if an error is NaN
