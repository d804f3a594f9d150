"""The table of the interfaces of Arena in docs/papers.md names components that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ludus._plugins.manager import load_plugins

TEXT = Path(__file__).parents[2].joinpath("docs", "papers.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| (?P<interface>[^|]+) \| (?P<component>[^|]+) \| `(?P<package>ludus-[a-z0-9-]+)` \| ", re.MULTILINE
)
ROWS = list(ROW.finditer(TEXT))
#: Interfaces that the paper names, apart from its wrappers and teams.
NAMED = {
    *("Combine", "EnvItfWrapper", "AgtItfWrapper"),
    *("Img5IObsItf", "Img3I2ZObsItf", "ImgMABObsItf", "ImgActItf", "ImgMABActItf"),
    *("ZergSC2LearnerObsItf", "ZergAreaObsItf", "ZergTechObsItf", "ZergUnitProgObsItf", "ZergFlatActItf"),
    *("ZergDataItf", "ZergProdActItf", "ZergResourceActItf", "ZergCombatActItf"),
    *("BoardMapObs", "AttrObsItf", "ActMaskObsItf", "RotateItf"),
    *("ScreenAsObs", "SegmentationAsObs", "DiscreteAction7", "PostRuleAction", "GameConfigRelated"),
    *("Dict2Vec", "MakeTeam", "ConcatObsAct"),
}


def test_every_interface_of_the_paper_is_listed():
    """Each one has a row."""
    assert NAMED - {row["interface"].split()[0] for row in ROWS} == set()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["interface"])
def test_components_are_registered(row):
    """Each component is one of its kind, and comes from the package of its row."""
    named = re.findall(r"(interface|environment|agent) `([a-z0-9-]+)`", row["component"])
    assert named
    for kind, name in named:
        module = load_plugins().components(kind)[name].factory.partition(".")[0]
        shared = "ludus-interfaces"  # some names of the paper are second names of its components
        assert module.replace("_", "-") in {row["package"], shared}
