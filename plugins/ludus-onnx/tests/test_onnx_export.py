"""`ludus export`: a folder from which a model can be run without ludus, and errors in one line."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from ludus.errors import ConfigError, ModelError
from ludus_onnx import command, package
from ludus_onnx.golden import decode_arrays


def invoke(*arguments):
    """Run the command; errors of ludus are raised."""
    return CliRunner().invoke(command.export, [str(argument) for argument in arguments], catch_exceptions=False)


def test_folder_reproduces_its_golden_vectors(exported):
    """ONNX Runtime computes the stored outputs from the stored inputs, which are 100 rows."""
    session = onnxruntime.InferenceSession(exported.folder / "model.onnx")
    inputs, outputs = (decode_arrays(exported.golden[key]) for key in ("inputs", "outputs"))
    found = dict(zip(outputs, session.run(list(outputs), inputs), strict=True))
    assert {len(array) for array in inputs.values()} == {100}
    for name, expected in outputs.items():
        limit = exported.golden["tolerance"] * exported.golden["scales"][name]
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=limit)


def test_card_describes_the_file(exported):
    """Names, shapes, checksum and opset of the card are those of the file."""
    data, card = (exported.folder / "model.onnx").read_bytes(), exported.card
    assert card["file"]["sha256"] == hashlib.sha256(data).hexdigest()
    model = onnx.load_model_from_string(data)
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": card["file"]["opset"]}
    for key, values in (("inputs", model.graph.input), ("outputs", model.graph.output)):
        dimensions = {value.name: value.type.tensor_type.shape.dim for value in values}
        assert [entry["name"] for entry in card[key]] == list(dimensions)
        for entry in card[key]:
            assert entry["shape"][1:] == [axis.dim_value for axis in dimensions[entry["name"]][1:]]
            assert dimensions[entry["name"]][0].dim_param


def test_card_states_license_and_lineage(exported, run_dir):
    """The lineage has the checksum of the model's file and of its parents."""
    lineage = exported.card["lineage"]
    assert exported.card["license"] == "CC-BY-4.0"
    for sha256 in (lineage["sha256"], *(parent["sha256"] for parent in lineage["parents"])):
        assert hashlib.sha256((run_dir / "models" / f"{sha256}.safetensors").read_bytes()).hexdigest() == sha256
    assert lineage["parents"][-1]["model"] == "main_agent@1"


def test_card_lists_what_stays_outside(exported):
    """The stateful interface is listed as preprocessing; the pure ones behind it are in the file."""
    assert [table["interface"] for table in exported.card["preprocessing"]] == ["frame-stack"]
    assert [table["interface"] for table in exported.card["included_preprocessing"]] == ["scale-observation", "flatten"]
    (leaf, mask) = exported.card["inputs"]
    assert (leaf["name"], leaf["shape"], leaf["dtype"]) == ("observation/obs", ["batch", 3, 3, 4], "int8")
    assert mask == {"name": "action_mask", "dtype": "bool", "shape": ["batch", 9]}
    assert "frame-stack" in exported.output


def test_file_has_no_paths_of_the_machine(exported):
    """Exporters note stack traces; the file has none."""
    data = (exported.folder / "model.onnx").read_bytes()
    assert b".py" not in data
    assert b"/ludus" not in data


def test_rows_of_spaces_without_folding(run_dir, tmp_path):
    """Without matches and folding, the inputs are the leaves behind all interfaces."""
    options = ["--golden", "spaces", "--no-fold", "--exporter", "torchscript"]
    invoke(run_dir, "main_agent@1", "--onnx", tmp_path / "new" / "model", *options)
    card = json.loads((tmp_path / "new" / "model" / "card.json").read_text())
    assert card["inputs"][0]["shape"] == ["batch", 36]
    assert len(card["preprocessing"]) == 3
    assert card["golden"]["source"] == "spaces"
    assert card["file"]["exporter"] == "torchscript"


def test_existing_folder_is_refused(run_dir, tmp_path):
    """Nothing is overwritten."""
    with pytest.raises(ConfigError, match="exists already"):
        invoke(run_dir, "main_agent@1", "--onnx", tmp_path)


@pytest.mark.parametrize(("model", "message"), [("main_agent@9", "main_agent@9"), ("random", "no frozen model")])
def test_unknown_model_is_refused(run_dir, tmp_path, model, message):
    """The message names the model."""
    with pytest.raises(ConfigError, match=message):
        invoke(run_dir, model, "--onnx", tmp_path / "model")


def test_missing_packages_are_named(run_dir, tmp_path, monkeypatch):
    """The message has the command that installs them."""
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(ConfigError, match="pip install onnxscript"):
        invoke(run_dir, "main_agent@1", "--onnx", tmp_path / "model")


def test_failed_export_leaves_no_folder(run_dir, tmp_path, monkeypatch):
    """An opset that no exporter writes is one line with both reasons."""
    monkeypatch.setattr(package, "GOLDEN_ROWS", 10)
    with pytest.raises(ModelError, match=r"opset 99: torchscript: .*") as caught:
        invoke(run_dir, "main_agent@1", "--onnx", tmp_path / "model", "--opset", 99, "--exporter", "torchscript")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_folder_is_one_line(run_dir, tmp_path):
    """A parent that is a file is reported with advice."""
    (tmp_path / "file").touch()
    options = ["--golden", "spaces", "--exporter", "torchscript"]
    with pytest.raises(ConfigError, match="cannot be written"):
        invoke(run_dir, "main_agent@1", "--onnx", tmp_path / "file" / "model", *options)


def test_algorithm_without_decision_module_is_refused(run_dir, tmp_path, monkeypatch):
    """The message names the algorithm and the method that it lacks."""
    monkeypatch.delattr("ludus_ppo.algorithm.PPO.make_decision_module")
    with pytest.raises(ModelError, match="'ppo' cannot be exported; it needs the method make_decision_module"):
        invoke(run_dir, "main_agent@1", "--onnx", tmp_path / "model")
