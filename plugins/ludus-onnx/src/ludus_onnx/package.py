"""Export a frozen model of a run: the ONNX file, golden vectors and the card in one new folder."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from ludus.errors import ConfigError, ModelError
from ludus.export import DecisionModule, ExportableAlgorithm
from ludus.interface import Interface, bind_role, has_own_act, stack
from ludus.records import ModelRecord
from ludus.runs import Run, TrainedModel

from ludus_onnx.card import CARD_FILE, GOLDEN_FILE, MODEL_FILE, CardContext, make_card
from ludus_onnx.conversion import DEFAULT_OPSET, EXPORTERS, convert
from ludus_onnx.flat_module import DECISION_GROUPS, Arrays, Exportable, FlatModule, make_exportable
from ludus_onnx.folding import FoldedDecisions, count_foldable, observe_rows
from ludus_onnx.golden import MATCHES, golden_values, play_rows, role_behind, sample_rows

GOLDEN_ROWS = 100


@frozen(kw_only=True)
class ExportOptions:
    """How a model is exported.

    Attributes:
        opset: Opset of the standard operators.
        exporters: Exporters to try, in order; see `ludus_onnx.conversion.EXPORTERS`.
        golden_source: ``"matches"``: golden vectors are rows of played matches. ``"spaces"``: they are drawn from the
            observation spaces.
        seed: Seed of the golden vectors.
        fold: Whether the file includes interfaces that are pure functions of arrays.
        license: License of the model, for its card.
    """

    opset: int = DEFAULT_OPSET
    exporters: Sequence[str] = EXPORTERS
    golden_source: str = "matches"
    seed: int = 0
    fold: bool = True
    license: str = ""


def export_model(run: Run, name: str, folder: Path, options: ExportOptions) -> dict[str, Any]:
    """Export a frozen model into a new folder, and return its card.

    Args:
        run: The run.
        name: Name of the model.
        folder: Folder to make; it exists only if everything succeeds.
        options: The options.

    Raises:
        ConfigError: The folder exists or cannot be written, or there is no such model.
        ModelError: The model cannot be loaded, or no exporter can write its network.
    """
    if folder.exists():
        raise ConfigError(f"{folder} exists already; choose another folder, or remove it")
    played = options.golden_source == "matches"
    with closing(run.make_environment(MATCHES if played else 1)) as environment:
        model = run.trained_model(name, environment.spec)
        decisions = _make_decisions(model)
        interfaces = model.make_interfaces()
        bind_role(model.raw_role, stack(*interfaces))
        folded = count_foldable(model.raw_role, interfaces) if options.fold else 0
        outside, inside = interfaces[: len(interfaces) - folded], interfaces[len(interfaces) - folded :]
        role = role_behind(model.raw_role, outside)
        if played:
            rows = play_rows(run, model, environment, size=GOLDEN_ROWS, seed=options.seed, folded=folded)
        else:
            rows = sample_rows(role, decisions.initial_state, size=GOLDEN_ROWS, seed=options.seed)
    exportable = _make_exportable(decisions, inside, rows)
    _check_finite(exportable, model.record.participant)
    converted = convert(exportable, opset=options.opset, exporters=options.exporters)
    context = CardContext(
        model=model,
        role=role,
        decisions=decisions,
        environment=environment.spec.name,
        folded=folded,
        changes_actions=tuple(map(has_own_act, interfaces)),
        parents=tuple(_ancestors(run, model.record)),
        license=options.license,
        golden_source=options.golden_source,
    )
    card = make_card(context, exportable, converted)
    golden = golden_values(exportable)
    _write_folder(folder, {MODEL_FILE: converted.data, GOLDEN_FILE: _encode(golden), CARD_FILE: _encode(card)})
    return card


def _make_decisions(model: TrainedModel) -> DecisionModule:
    algorithm = model.algorithm
    if not isinstance(algorithm, ExportableAlgorithm):
        raise ModelError(
            f"{model.record.participant}: its algorithm {model.record.manifest.get('algorithm')!r} cannot be exported; "
            "it needs the method make_decision_module of ludus.export.ExportableAlgorithm"
        )
    return algorithm.make_decision_module(model.weights)


def _make_exportable(decisions: DecisionModule, inside: Sequence[Interface], rows: Arrays) -> Exportable:
    """Return the decision module behind the interfaces inside of the file, with what NumPy and torch compute."""
    behind = make_exportable(decisions.module, DECISION_GROUPS, observe_rows(inside, rows))
    if not inside:
        return behind
    module = FlatModule(FoldedDecisions(decisions.module, inside), DECISION_GROUPS, tuple(rows))
    return Exportable(module=module.eval(), inputs=rows, outputs=behind.outputs)


def _check_finite(exportable: Exportable, participant: str) -> None:
    for name, array in exportable.outputs.items():
        if not np.isfinite(array).all():
            raise ModelError(
                f"{participant}: output {name} is not finite for some golden vectors; with --golden spaces, bound the "
                "observation spaces, or take rows of matches"
            )


def _ancestors(run: Run, record: ModelRecord) -> list[ModelRecord]:
    """Return the models that a model was trained from, nearest first."""
    by_hash = {model.hash: model for model in run.models.values()}
    found: list[ModelRecord] = []
    parent = record.parent
    while parent in by_hash and by_hash[parent] not in found:
        found.append(by_hash[parent])
        parent = found[-1].parent
    return found


def _encode(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=1, allow_nan=False).encode()


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    """Write files into a new folder, which appears when all of them are complete.

    Raises:
        ConfigError: The folder cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as partial:
            complete = Path(partial) / "complete"
            complete.mkdir()
            for name, data in files.items():
                (complete / name).write_bytes(data)
            complete.rename(folder)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error}; choose another folder, or free disk space") from error
