"""A frozen model of another run plays as in its own run."""

from __future__ import annotations

import json
from contextlib import closing

import attrs
import numpy as np
import pytest
from ludus.__main__ import main
from ludus.agent import EvaluatingAgent
from ludus.errors import ConfigError, ModelError
from ludus.runs import open_run
from ludus_agents.config import ModelConfig
from ludus_agents.model import make_model

RUN = """
[run]
seed = 2
workers = 0
decisions = {decisions}
[environment]
name = "{environment}"
[sampling]
matches = 8
fixture_matches = 16
rows_per_fixture = 8
[players.main]
algorithm = "{algorithm}"
matchmaker = "{matchmaker}"
freeze_every_decisions = 100_000
{player}
[evaluation]
enabled = false
final_matches = 0
{more}
"""
PPO = "[players.main.ppo]\nsegment_decisions = 8\nbatch_decisions = 128\nlearning_rate = 0.01\n"
KINDS = {
    "plain": 'network = "mlp"\n' + PPO,
    "recurrent": 'network = "modular"\n' + PPO + '[players.main.modular]\ntorso = [16]\ncore = "lstm"\ncore_size = 8\n',
    "through interfaces": 'network = "mlp"\ninterfaces = ["dummy-scale", "dummy-reverse"]\n' + PPO,
}


def train(folder, *, environment="dummy-count", algorithm="ppo", matchmaker="latest-self-play", player="", more=""):
    """Train for a moment and return the run's folder."""
    values = {"environment": environment, "algorithm": algorithm, "matchmaker": matchmaker, "player": player}
    (folder / "run.toml").write_text(RUN.format(**values, more=more, decisions=600), encoding="utf-8")
    assert main(["train", str(folder / "run.toml"), "--run", str(folder / "run"), "--json"]) == 0
    return folder / "run"


@pytest.fixture(scope="module", params=KINDS)
def folder(request, tmp_path_factory):
    """Return a run of each kind."""
    return train(tmp_path_factory.mktemp("kind"), player=KINDS[request.param])


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return a run of the plain kind."""
    return train(tmp_path_factory.mktemp("plain"), player=KINDS["plain"])


def model_of(folder):
    """Return the path of a run's newest model."""
    with open_run(folder) as run:
        return folder / "models" / f"{list(run.models.values())[-1].hash}.safetensors"


def decisions(agent, environment, *, ticks=12):
    """Return an agent's actions and values on both seats of all matches."""
    rng, results = np.random.default_rng(0), []
    tick = environment.reset(np.arange(environment.num_matches, dtype=np.uint64))
    agent.reset(np.arange(2 * environment.num_matches))
    for _ in range(ticks):
        role = tick.roles["player"]
        rows, seats = np.nonzero(role.acting)
        if not rows.size:
            break
        action, value = agent.act_and_evaluate(
            {name: leaf[rows, seats] for name, leaf in role.observation.items()},
            action_mask=role.action_mask[rows, seats],
            seat_ids=2 * rows + seats,
            rng=rng,
        )
        results += [action.copy(), value.copy()]
        actions = np.zeros((environment.num_matches, 2, 1), np.int64)
        actions[rows, seats] = action
        tick = environment.step({"player": actions})
    return results


@pytest.mark.parametrize("deterministic", [False, True])
def test_actions_and_values_equal_those_of_the_run(folder, deterministic):
    """Algorithm, network and interfaces come from the manifest; only the two files are needed."""
    with open_run(folder) as run, closing(run.make_environment(6)) as environment:
        home = run.agent("main@latest", "player", environment=environment, deterministic=deterministic)
        config = ModelConfig(file=str(model_of(folder)), deterministic=deterministic)
        away = make_model(config, spec=environment.spec, role="player")
        assert isinstance(away, EvaluatingAgent)
        expected = decisions(home, environment)
        assert len(expected) >= 6
        for one, other in zip(expected, decisions(away, environment), strict=True):
            np.testing.assert_array_equal(one, other)
        assert np.isfinite(np.concatenate(expected[1::2])).all()


def test_states_are_kept_when_more_seats_start(tmp_path):
    """The number of seats is not known in advance."""
    file = model_of(folder := train(tmp_path, player=KINDS["recurrent"]))
    with open_run(folder) as run, closing(run.make_environment(1)) as environment:
        spec = environment.spec
    rng = np.random.default_rng(1)
    observed = rng.random((4, 1, spec.role("player").observation_space.shape[0])).astype(np.float32)
    mask = np.ones((1, spec.role("player").action_space.n), bool)

    def values(*others):
        agent = make_model(ModelConfig(file=str(file)), spec=spec, role="player")
        agent.reset(np.array([0]))
        for step, observation in enumerate(observed):
            if step == 2:
                agent.reset(np.array(others, np.int64))
            _, value = agent.act_and_evaluate(
                {"obs": observation}, action_mask=mask, seat_ids=np.array([0]), rng=np.random.default_rng(0)
            )
            yield value.item()

    assert list(values(5, 3)) == list(values())
    assert list(values(0))[2:] != list(values())[2:]  # a new match resets the state


def test_an_exploiter_learns_from_the_values_of_a_model(plain, tmp_path, monkeypatch):
    """The model is an anchor of another run."""
    learner = pytest.importorskip("ludus_minimax.trainer").MinimaxPPOTrainer
    shaped, update = [], learner.update

    def watched(self, batch, *, progress):
        result = update(self, batch, progress=progress)
        shaped.append(result.metrics["minimax_reward"])
        return result

    monkeypatch.setattr(learner, "update", watched)
    folder = train(
        tmp_path,
        algorithm="minimax-ppo",
        matchmaker="against-anchors",
        player='network = "mlp"\n'
        "[players.main.minimax-ppo]\nminimax_alpha = 0.5\nsegment_decisions = 8\nbatch_decisions = 128\n",
        more=f'[anchors.victim]\nagent = "model"\n[anchors.victim.model]\nfile = "{model_of(plain)}"\n',
    )
    assert shaped[0] < 0  # later it may reach positions of lower values than the model's lowest while that learned
    with open_run(folder) as run:
        assert run.league.anchors == ("victim",)
        assert run.league.payoff(run.league.players["main"].live, ["victim"]).sum() > 0


def spec_of(folder):
    """Return the specification of a run's environment."""
    with open_run(folder) as run, closing(run.make_environment(1)) as environment:
        return environment.spec


def test_another_environment_is_rejected(plain):
    """Its spaces might fit by chance."""
    spec = attrs.evolve(spec_of(plain), name="dummy-other")
    with pytest.raises(ModelError, match="learned dummy-count, so it cannot play dummy-other"):
        make_model(ModelConfig(file=str(model_of(plain))), spec=spec, role="player")


def test_another_role_is_rejected(tmp_path):
    """A hider is no seeker."""
    player = 'role = "hider"\n' + KINDS["plain"]
    more = '[anchors.random]\nagent = "dummy-random"\n'
    folder = train(tmp_path, environment="dummy-guess", matchmaker="against-anchors", player=player, more=more)
    config, spec = ModelConfig(file=str(model_of(folder))), spec_of(folder)
    assert make_model(config, spec=spec, role="hider")
    with pytest.raises(ModelError, match="learned the role hider, so it cannot play seeker"):
        make_model(config, spec=spec, role="seeker")


def moved(plain, tmp_path, *, model=lambda data: data, manifest=lambda text: text):
    """Return the path of a changed copy of a model, with its manifest."""
    source, target = model_of(plain), tmp_path / model_of(plain).name
    target.write_bytes(model(source.read_bytes()))
    description = manifest(source.with_suffix(".json").read_text(encoding="utf-8"))
    if description is not None:
        target.with_suffix(".json").write_text(description, encoding="utf-8")
    return target


def without(key):
    """Return a function that removes an entry of a manifest."""
    return lambda text: json.dumps({name: value for name, value in json.loads(text).items() if name != key})


def test_a_model_can_be_copied_to_any_folder(plain, tmp_path):
    """Its file and its manifest."""
    assert make_model(ModelConfig(file=str(moved(plain, tmp_path))), spec=spec_of(plain), role="player")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": lambda data: data[:-1] + bytes([data[-1] ^ 1])}, ModelError, "damaged"),
        ({"manifest": lambda text: None}, ModelError, "json: cannot be read"),
        ({"manifest": lambda text: text[:-1]}, ModelError, "not a JSON manifest"),
        ({"manifest": without("environment")}, ModelError, "learned None"),
        ({"manifest": without("config")}, ConfigError, "players.main: expected a table"),
        ({"manifest": lambda text: text.replace('"ppo"', '"no-such"')}, ConfigError, "no-such"),
    ],
    ids=["weights", "no manifest", "cut", "no environment", "no config", "unknown algorithm"],
)
def test_damaged_files_are_errors_of_one_line(plain, tmp_path, change, error, message):
    """Manifests are checked like configurations."""
    config, spec = ModelConfig(file=str(moved(plain, tmp_path, **change))), spec_of(plain)
    with pytest.raises(error, match=message):
        make_model(config, spec=spec, role="player")


@pytest.mark.parametrize("file", ["", "main@3", 7])
def test_the_option_must_be_the_path_of_a_model_file(file):
    """Neither a run nor a participant."""
    with pytest.raises(ValueError, match=r"expected the path of a model file"):
        ModelConfig(file=file)


def test_a_file_with_another_name_is_an_error(plain, tmp_path):
    """The name must be the hash of the content."""
    config = ModelConfig(file=str(tmp_path / "best.safetensors"))
    with pytest.raises(ModelError, match=r"best.safetensors: expected …/<hash>.safetensors, a file of a run's folder"):
        make_model(config, spec=spec_of(plain), role="player")


def test_a_missing_file_is_an_error(plain, tmp_path):
    """The message names the file."""
    name = f"{'0' * 64}.safetensors"
    with pytest.raises(ModelError, match=f"{name}: cannot be read"):
        make_model(ModelConfig(file=str(tmp_path / name)), spec=spec_of(plain), role="player")


def test_a_model_can_play_below_its_strength(folder):
    """At a high temperature, or with noise only, all choices are equally likely; at its own strength they are not."""
    with open_run(folder) as run:
        model = next(iter(run.models.values()))
        with closing(run.make_environment(1)) as environment:
            spec = environment.spec
    file, rows = str(folder / "models" / f"{model.hash}.safetensors"), 3000
    space = spec.role("player").observation_space
    observation = {"obs": np.zeros((rows, *space.shape), np.float32)}
    observation["obs"][:, 0] = 1
    spread = []
    for options in ({}, {"temperature": 1e4}, {"noise": 1.0}):
        agent = make_model(ModelConfig(file=file, **options), spec=spec, role="player")
        agent.reset(np.arange(rows))
        mask, rng = np.ones((rows, 3), bool), np.random.default_rng(0)
        action = agent.act(observation, action_mask=mask, seat_ids=np.arange(rows), rng=rng)
        spread.append(np.bincount(action[:, 0], minlength=3).std() / rows)
    assert spread[1:] == pytest.approx([0, 0], abs=0.02)
    assert spread[0] > 0.025
