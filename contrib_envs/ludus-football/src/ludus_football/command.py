"""The command ``ludus football-heatmap``."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from attrs import frozen
from ludus.errors import ConfigError
from ludus.lineup import make_agents, make_lineup
from ludus.runs import Run, open_run, play_matches

from ludus_football.heatmap import write_heatmap
from ludus_football.positions import PositionHistogram, PositionRecorder


@frozen(kw_only=True)
class _Played:
    """Matches of a participant against one opponent."""

    opponent: str
    histogram: PositionHistogram
    score: float

    def json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "opponent": self.opponent,
            "score": self.score,
            "thirds": list(self.histogram.thirds()),
            "histogram": self.histogram.counts.tolist(),
        }


@click.command("football-heatmap")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("participant")
@click.argument("opponents", metavar="OPPONENT...", nargs=-1, required=True)
@click.option("--matches", default=10, show_default=True, type=click.IntRange(1), help="Matches with every opponent.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1), help="Seed of the matches.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the PNG files, one per opponent; default: RUN/plots.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the counts of all cells as JSON.")
def football_heatmap(
    run_dir: Path,
    participant: str,
    opponents: tuple[str, ...],
    matches: int,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Draw where the players of a team are in matches against opponents (needs matplotlib).

    RUN is a run folder whose game is football. PARTICIPANT and OPPONENT are models (main_agent@latest, main_agent@7),
    anchors of the run or installed agents. The participant has the left team and attacks to the right; goalkeepers are
    not counted. All opponents play on the same seeds, and all figures have one scale. Nothing is written to the run but
    the figures.
    """
    with open_run(run_dir) as run:
        played = [_play(run, participant, opponent, matches, seed) for opponent in opponents]
    limit = max(one.histogram.shares.max() for one in played)
    files = []
    for one in played:
        path = (out or run_dir / "plots") / f"heatmap-{_file_name(participant)}-{_file_name(one.opponent)}.png"
        write_heatmap(one.histogram, path, title=f"{participant} against {one.opponent}", limit=limit)
        files.append(str(path))
    if as_json:
        click.echo(
            json.dumps({"participant": participant, "opponents": [one.json() for one in played], "files": files})
        )
        return
    for one, file in zip(played, files, strict=True):
        own, middle, front = one.histogram.thirds()
        click.echo(
            f"{participant} against {one.opponent}: own third {own:.1%}, middle {middle:.1%}, opponents' third "
            f"{front:.1%}; score {one.score:.3f} in {matches} matches; {file}"
        )


def _play(run: Run, participant: str, opponent: str, matches: int, seed: int) -> _Played:
    """Play the matches with one opponent."""
    environment = run.make_environment(min(matches, run.config.evaluation_matches))
    with closing(PositionRecorder(environment)) as recorder:
        if recorder.spec.name != "football":
            raise ConfigError(f"{run.folder}: the game is {recorder.spec.name}; expected a run of football")
        lineup = make_lineup(recorder.spec, (participant, opponent), run)
        agents = make_agents([lineup], run, recorder)
        (results,) = play_matches(recorder, agents, matches=matches, seed=seed)
    return _Played(opponent=opponent, histogram=recorder.histogram, score=float(results["outcome"][:, 0].mean()))


def _file_name(participant: str) -> str:
    """Return a participant's name without characters that do not belong in file names."""
    return re.sub(r"[^A-Za-z0-9@_.+-]", "_", participant)
