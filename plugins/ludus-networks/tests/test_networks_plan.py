"""Tests of the options of ``modular`` and of messages about mistakes."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
from gymnasium import spaces
from ludus import ContractError
from ludus._config.structuring import StructuringError, structure
from ludus.network import NetworkRequest
from ludus_networks.config import EntityPart, ModularConfig, VectorPart
from ludus_networks.modular import make_modular
from ludus_networks.plan import make_plan

BOX = spaces.Box(-1, 1, (3,), np.float32)
REQUEST = NetworkRequest(
    observation={
        "map": spaces.Box(0, 255, (6, 6, 2), np.uint8),
        "hero": BOX,
        "mice": spaces.Box(-1, 1, (4, 3), np.float32),
        "mice_present": spaces.MultiBinary(4),
        "towers": spaces.Box(-1, 1, (2, 3), np.float32),
        "turn": spaces.Discrete(2),
    },
    privileged={"fog": BOX, "ghosts": spaces.Box(-1, 1, (4, 3), np.float32)},
    heads={"policy": 12},
    critic_heads={"value": 1},
    labels={"policy": (5, 7)},
)
RUN = """
torso = [64]
core = "gru"
[vectors.hero]
leaves = ["hero", "turn"]
[images.map]
leaf = "map"
channels = [8, 16]
[entities.mice]
leaf = "mice"
present = "mice_present"
key = 16
[entities.towers]
leaf = "towers"
key = 16
[[attention]]
label = 1
entities = ["towers", "mice"]
plain = 1
"""


def parse(text):
    """Return the options in a TOML text."""
    return structure(tomllib.loads(text), ModularConfig)


def test_plan_has_a_part_for_each_table():
    """One encoder for each table, and the label of each entry of `attention`."""
    plan = make_plan(parse(RUN), REQUEST)
    assert list(plan.observation) == ["vector-hero", "image-map", "entity-mice", "entity-towers"]
    assert plan.privileged == {"rest": VectorPart(leaves=("fog", "ghosts"), hidden=())}
    assert plan.attention["policy"][1].encoders == ("entity-towers", "entity-mice")


def test_network_is_built_from_toml():
    """From text to module."""
    assert make_modular(parse(RUN), request=REQUEST).initial_state(3)["h"].shape == (3, 256)


def test_unread_leaves_become_the_rest():
    """In the order of the observation, with the layers of `rest`."""
    plan = make_plan(parse('rest = [9]\n[vectors.hero]\nleaves = ["hero"]'), REQUEST)
    assert plan.observation["rest"].leaves == ("map", "mice", "mice_present", "towers", "turn")
    assert plan.observation["rest"].hidden == (9,)


def test_tables_of_privileged_leaves_become_privileged_encoders():
    """Only critic heads read them."""
    plan = make_plan(parse('[vectors.fog]\nleaves = ["fog"]\n[entities.ghosts]\nleaf = "ghosts"'), REQUEST)
    assert set(plan.privileged) == {"vector-fog", "entity-ghosts"}
    assert set(plan.observation) == {"rest"}


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("[vectors.hero]\nleafs = ['a']", ("vectors", "hero", "leafs"), "unknown key — did you mean 'leaves'?"),
        ("[vectors.hero]", ("vectors", "hero", "leaves"), "missing"),
        ("[vectors.hero]\nleaves = []", ("vectors", "hero", "leaves"), "at least one item"),
        ("[images.map]\nleaf = 'map'\nkind = 'resnet'", ("images", "map", "kind"), "one of residual, conv"),
        ("[entities.mice]\nleaf = 'mice'\nhidden = [0]", ("entities", "mice", "hidden"), "each a whole number from 1"),
        ("['vectors']\n'a.b' = {leaves = ['hero']}", ("vectors",), "letters, digits, _ and -"),
        ("core = 'transformer'", ("core",), "one of none, lstm, gru"),
        ("torso = [8, -1]", ("torso",), "a list of 0 to 256 items, each a whole number from 1"),
        ("[[attention]]\nlabel = -1\nentities = ['mice']", ("attention", 0, "label"), "a whole number from 0"),
    ],
)
def test_wrong_option_raises(text, place, problem):
    """With its path in the file."""
    with pytest.raises(StructuringError) as caught:
        parse(text)
    first = caught.value.problems[0]
    assert first.path == place
    assert problem in first.text


MICE = "[entities.mice]\nleaf = 'mice'\nkey = 4\n[entities.towers]\nleaf = 'towers'\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[vectors.a]\nleaves = ['heros']",
            "vectors.a: unknown leaf 'heros'; the role has map, hero, .*, fog, ghosts$",
        ),
        ("[vectors.a]\nleaves = ['hero', 'fog']", "vectors.a: fog is privileged and the other leaves are not"),
        ("[images.a]\nleaf = 'mice'", r"images.a: expected .* \(height, width, channels\), got mice Box\(4, 3\)"),
        ("[images.a]\nleaf = 'map'\nkernel = 2", "images.a.kernel: expected odd numbers for residual blocks, got 2"),
        ("[entities.a]\nleaf = 'hero'", r"entities.a: expected .* \(entities, features\), got hero Box\(3,\)"),
        ("[entities.a]\nleaf = 'turn'", r"entities.a: expected .* got turn Discrete\(\)"),
        (
            "[entities.a]\nleaf = 'mice'\npresent = 'hero'",
            r"entities.a.present: expected shape \(4,\), .* got hero Box",
        ),
        ("[entities.a]\nleaf = 'mice'\npresent = 'mask'", "entities.a: unknown leaf 'mask'"),
        (MICE + "[[attention]]\nhead = 'q'\nlabel = 1\nentities = ['mice']", "head 'q' has no labels; .*: policy$"),
        (MICE + "[[attention]]\nlabel = 2\nentities = ['mice']", "'policy' has the labels 0 to 1, got 2"),
        (MICE + "[[attention]]\nlabel = 1\nentities = ['cats']", r"entities: expected .* \(mice\), got 'cats'"),
        (MICE + "[[attention]]\nlabel = 1\nentities = ['towers']", r"entities: expected .* \(mice\), got 'towers'"),
        ("[[attention]]\nlabel = 1\nentities = ['mice']", r"entities: expected .* \(there are none\), got 'mice'"),
        (MICE + "[[attention]]\nlabel = 1\nentities = ['mice']", "has 7 choices, but 0 plain and 4 entities make 4"),
        (
            "[entities.a]\nleaf = 'ghosts'\nkey = 3\n[[attention]]\nlabel = 1\nentities = ['a']",
            "not privileged .*, got 'a'",
        ),
        (
            MICE + "key = 5\n[[attention]]\nlabel = 1\nentities = ['mice', 'towers']\nplain = 1",
            r"expected keys of one size, got \[4, 5\]",
        ),
        (
            MICE + "[[attention]]\nlabel = 1\nentities = ['mice']\nplain = 3\n" * 2,
            r"attention\[1\]: label 1 of head 'policy' has a table already",
        ),
    ],
)
def test_option_that_does_not_fit_the_role_raises(text, problem):
    """One line with the network, the option, what was expected and what the role has."""
    with pytest.raises(ContractError, match=f"^network 'modular': .*{problem}") as caught:
        make_modular(parse(text), request=REQUEST)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("low", [-5.0, -np.inf, 0.5])
def test_mask_whose_low_is_not_zero_raises(low):
    """As after an interface that scales: absent entities would count as present."""
    present = spaces.Box(np.array([0, 0, low, 0], np.float32), 5.0)
    request = NetworkRequest(observation={**REQUEST.observation, "mice_present": present}, heads={"policy": 4})
    expected = (
        f"entities.mice.present: expected 0 .* got mice_present Box.4,. from {min(low, 0):g} to 5; .* MultiBinary"
    )
    with pytest.raises(ContractError, match=expected):
        make_plan(parse("[entities.mice]\nleaf = 'mice'\npresent = 'mice_present'"), request)


@pytest.mark.parametrize("present", [spaces.MultiBinary(4), spaces.Box(0, 1, (4,), np.int8), spaces.Box(0, 9, (4,))])
def test_mask_whose_low_is_zero_is_accepted(present):
    """Of any kind and dtype."""
    request = NetworkRequest(observation={**REQUEST.observation, "mice_present": present}, heads={"policy": 4})
    plan = make_plan(parse("[entities.mice]\nleaf = 'mice'\npresent = 'mice_present'"), request)
    assert set(plan.observation) == {"entity-mice", "rest"}


def test_attention_needs_a_head_with_labels():
    """The request must contain the labels."""
    request = NetworkRequest(observation=REQUEST.observation, heads={"policy": 4})
    with pytest.raises(ContractError, match="has no labels; expected one with labels: no head has labels"):
        make_modular(parse(MICE + "[[attention]]\nlabel = 0\nentities = ['mice']"), request=request)


@pytest.mark.parametrize("heads", [{}, {"features": 4}])
def test_network_without_actions_ignores_attention(heads):
    """Algorithms build critics and predictors with the same options."""
    request = NetworkRequest(observation=REQUEST.observation, heads=heads, critic_heads={"value": 1})
    text = MICE + "[[attention]]\nlabel = 0\nentities = ['mice']"
    assert make_plan(parse(text), request).attention == {}
    assert set(make_modular(parse(text), request=request).state_dict()) >= {"critic_heads.value.out.weight"}


def test_parts_are_validated_in_python_too():
    """Without a file."""
    with pytest.raises(ValueError, match="a list of 1 to 256 items"):
        EntityPart(leaf="mice", hidden=())
