"""``ludus league promote``: list candidates, and add a model to a pool."""

from __future__ import annotations

import json
from functools import partial

import pytest
from ludus.errors import ConfigError, RunError
from ludus.runs import change_pool, open_run


@pytest.fixture
def made(write):
    """Return a stopped run of four models: the third is the best, the last has no rating."""
    made = write()
    for _ in range(4):
        made.freeze("main")
    made.duel("main@1", "random", [1, 0, 0, 0], ticks=10)
    made.duel("main@2", "random", [1, 1, 0, 0], ticks=20)
    made.duel("main@3", "random", [1, 1, 1, 0], ticks=30)
    made.enter("all", "main@1", "main@2", "main@3", "main@4")
    made.enter("finalists", "main@1", "main@2")
    made.store.commit()
    lines = []
    for minute, (total, kicks) in enumerate([(0.1, 1.0), (0.2, 3.0), (0.4, 5.0), (0.5, 7.0)], start=1):
        values = {"sampling/return_mean": total, "sampling/return/player/kicks": kicks, "sampling/ticks_per_s": 9.0}
        lines += [json.dumps({"t": 60.0 * minute - back, "d": 1, "m": values}) for back in (30.0, 10.0)]
    (made.folder / "metrics.jsonl").write_text("\n".join([*lines, ""]))
    made.store.close()
    return made


def test_candidates_are_the_best_rated(made, data):
    """Three by default; models without a rating come last."""
    found = [candidate["model"] for candidate in data("promote", made.folder)["candidates"]]
    assert found == ["main@3", "main@2", "main@1"]
    assert [candidate["model"] for candidate in data("promote", made.folder, "--top", 9)["candidates"]][3:] == [
        "main@4"
    ]


def test_candidates_come_with_their_behaviour(made, data):
    """Show length and score of evaluation matches, and the means of training metrics while each model was learned."""
    found = {candidate["model"]: candidate for candidate in data("promote", made.folder, "--top", 9)["candidates"]}
    best = found["main@3"]
    assert (best["score"], best["match_ticks"], best["matches"], best["pools"]) == (0.75, 30, 4, ["all"])
    assert best["anchors"]["random"]["wins"] == 3
    assert best["learning"] == {"kicks": 5.0, "return_mean": 0.4}
    assert found["main@1"]["learning"] == {"kicks": 1.0, "return_mean": 0.1}
    assert (found["main@4"]["score"], found["main@4"]["match_ticks"]) == (None, None)


def test_candidates_are_shown_side_by_side(made, show):
    """Every candidate has one column."""
    lines = [line.split() for line in show("promote", made.folder, "--from", "finalists").splitlines()]
    assert ["main@2", "main@1"] in lines
    assert ["score", "0.500", "0.250"] in lines
    assert ["kicks", "while", "learned", "3.000", "1.000"] in lines


def test_a_candidate_that_was_never_rated_has_no_rating(made, data, show):
    """The initial rating is not shown."""
    found = {candidate["model"]: candidate for candidate in data("promote", made.folder, "--top", 9)["candidates"]}
    assert (found["main@4"]["rating"], found["main@4"]["deviation"], found["main@4"]["matches"]) == (None, None, 0)
    assert found["main@1"]["rating"] < 0 < found["main@1"]["deviation"]
    (line,) = (line for line in show("promote", made.folder, "--top", 9).splitlines() if line.startswith("rating"))
    assert line.count("±") == 3


def test_candidates_of_an_unknown_pool(made, show):
    """The message lists the pools."""
    with pytest.raises(ConfigError, match="there are: all, finalists"):
        show("promote", made.folder, "--from", "final")


def test_a_run_without_models_has_no_candidates(write, show):
    """A line states that there are none."""
    made = write()
    made.store.commit()
    assert "no candidates yet" in show("promote", made.folder)


def test_the_chosen_model_enters_the_pool(made, show, data):
    """The pool and the pool log have the model afterwards."""
    assert "main@2 is in the new pool chosen now: main@2" in show("promote", made.folder, "main@2", "chosen")
    promoted = data("promote", made.folder, "main@latest", "chosen")
    assert promoted == {"model": "main@4", "pool": "chosen", "new_pool": False, "members": ["main@2", "main@4"]}
    with open_run(made.folder) as run:
        assert list(run.pools["chosen"]) == ["main@2", "main@4"]
        assert [record.change.model for record in run.pool_log()][-2:] == ["main@2", "main@4"]


def test_mistakes_are_one_line(made, show):
    """Test a name that is no frozen model, a model that is in the pool already, and a missing pool."""
    for model, words in (("main", "no frozen model"), ("random", "no frozen model"), ("main@9", "not in this league")):
        with pytest.raises(ConfigError, match=words):
            show("promote", made.folder, model, "chosen")
    with pytest.raises(ConfigError, match="in the pool finalists already"):
        show("promote", made.folder, "main@1", "finalists")
    assert "name the pool for main@1" in show("promote", made.folder, "main@1", code=2)


@pytest.mark.parametrize("pool", ["", "/x", "*", "*/long", "own", "own/long", "anchors", "x\ny"])
def test_reserved_pool_names_are_rejected(made, show, pool):
    """Names that matchmakers interpret, and invalid names, leave the league unchanged."""
    with pytest.raises(ConfigError, match=r"^pool .*: expected a name such as"):
        show("promote", made.folder, "main@1", pool)
    with open_run(made.folder) as run:
        assert set(run.pools) == {"all", "finalists"}


@pytest.mark.parametrize("pool", ["main/superior", "main/superior/long", "Promoted", "the best"])
def test_any_other_pool_may_be_entered(made, show, pool):
    """Options of matchmakers and rules choose the names of pools, such as a pool for promoted models."""
    assert f"main@1 is in the new pool {pool} now" in show("promote", made.folder, "main@1", pool)


def test_a_run_that_does_not_answer_is_one_line(write, show, monkeypatch):
    """The request is kept; `tests/core/test_change_requests.py` has runs that answer."""
    made = write()
    made.freeze("main")
    made.store.commit()
    monkeypatch.setattr("ludus_terminal.promotion.change_pool", partial(change_pool, timeout_s=0.2))
    with pytest.raises(RunError, match=r"has not answered .* the change is requested by") as caught:
        show("promote", made.folder, "main@1", "chosen")
    assert "\n" not in str(caught.value)
