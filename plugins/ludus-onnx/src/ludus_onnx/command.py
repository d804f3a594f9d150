"""The command ``ludus export``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click
from ludus.errors import ConfigError
from ludus.runs import open_run

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


@click.command()
@click.argument("run_dir", metavar="RUN")
@click.argument("model")
@click.option(
    "--onnx",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder to write: model.onnx, golden.json and card.json. It must not exist.",
)
@click.option(
    "--opset",
    default=18,
    show_default=True,
    type=click.IntRange(1, 100),
    help="Opset of the standard operators; the file is refused if it has another one.",
)
@click.option(
    "--exporter",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "dynamo", "torchscript"]),
    help="Exporter of torch; auto: dynamo, and torchscript if dynamo fails.",
)
@click.option(
    "--golden",
    default="matches",
    show_default=True,
    type=click.Choice(["matches", "spaces"]),
    help="Where the rows of the check come from: played matches, or samples of the observation spaces.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 100), help="Seed of these rows.")
@click.option(
    "--fold/--no-fold",
    default=True,
    show_default=True,
    help="Include the last interfaces in the file, as far as they are pure functions of arrays.",
)
@click.option("--license", "license_text", default="", help="License of the model, an SPDX expression, for its card.")
def export(
    run_dir: str,
    model: str,
    *,
    folder: Path,
    opset: int,
    exporter: str,
    golden: str,
    seed: int,
    fold: bool,
    license_text: str,
) -> None:
    """Write a frozen model as an ONNX file, with 100 golden vectors that ONNX Runtime has reproduced, and a card.

    RUN is a run folder, MODEL one of its models (main_agent@latest, main_agent@7). Inputs of the file are the leaves of
    an observation, the action mask and the recurrent state; outputs are the parameters of the action distribution,
    the value and the next state. Sampling stays outside; the card describes it. Nothing is written to the run.
    """
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise ConfigError(f"ludus export needs {', '.join(missing)}: install it with `pip install {' '.join(missing)}`")
    from ludus_onnx.package import ExportOptions, export_model  # noqa: PLC0415 - torch and onnx take seconds

    options = ExportOptions(
        opset=opset,
        exporters=("dynamo", "torchscript") if exporter == "auto" else (exporter,),
        golden_source=golden,
        seed=seed,
        fold=fold,
        license=license_text,
    )
    with open_run(run_dir) as run:
        card = export_model(run, model, folder, options)
    file, checked = card["file"], card["golden"]
    size = (folder / file["name"]).stat().st_size
    click.echo(f"wrote {card['model']} to {folder}: {size:,} bytes, opset {file['opset']}, exporter {file['exporter']}")
    for name, reason in file["refused_exporters"].items():
        click.echo(f"  exporter {name} was not used: {reason}")
    click.echo(
        f"  ONNX Runtime reproduced {checked['rows']} rows of {checked['source']}; largest error "
        f"{checked['max_error']:.1e} of the scale of an output"
    )
    outside = [table["interface"] for table in card["preprocessing"]]
    if outside:
        click.echo(f"  not in the file, apply before it: {', '.join(outside)}")
