"""`check_algorithm` reports every defect; each broken algorithm has one defect."""

from __future__ import annotations

import copy

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from ludus import ContractError
from ludus.testing import check_algorithm
from ludus.testing._synthetic import algorithm_roles, synthetic_batch
from ludus_dummy.algorithm import Gradient, LinearPolicy
from ludus_dummy.config import GradientConfig


def make_valid(context) -> Gradient:
    """Make an algorithm without defects."""
    return Gradient(GradientConfig(), context=context)


class Wrapper:
    """Forwards everything to the wrapped object; subclasses add a defect."""

    def __init__(self, inner) -> None:
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


def with_policy(defect):
    """Return a maker of algorithms whose policies are wrapped in `defect`."""

    class Broken(Gradient):
        def make_policy(self):
            return defect(super().make_policy())

    return lambda context: Broken(GradientConfig(), context=context)


def with_trainer(defect):
    """Return a maker of algorithms whose trainers are wrapped in `defect`."""

    class Broken(Gradient):
        def make_trainer(self, *, seed, device="cpu"):
            return defect(super().make_trainer(seed=seed, device=device))

    return lambda context: Broken(GradientConfig(), context=context)


def acting(change):
    """Return a policy wrapper that applies `change` to every decision and the options of `act`."""

    class Acting(Wrapper):
        def act(self, inputs, **options):
            return change(self.inner.act(inputs, **options), options)

    return Acting


def extras(**changes):
    """Return a policy wrapper that applies a function to named extras."""

    def change(decision, _):
        changed = {name: changes.get(name, lambda array: array)(array) for name, array in decision.extras.items()}
        return attrs.evolve(decision, extras=changed)

    return acting(change)


def valued(change):
    """Return a policy wrapper whose decisions have values, changed by a function."""
    return acting(lambda decision, _: attrs.evolve(decision, value=change(decision.extras["value"])))


def assert_rejected(make, message):
    """Assert that the check fails with a message."""
    with pytest.raises(ContractError, match=message):
        check_algorithm(make)


def test_a_valid_algorithm_passes():
    """The continuous role, which it does not support, is skipped."""
    check_algorithm(make_valid)


def test_a_decision_may_have_a_value():
    """If it equals the value of `evaluate`."""
    check_algorithm(with_policy(valued(lambda value: value)))


def test_roles_can_be_passed():
    """Only these are checked; it is an error if all are rejected."""
    check_algorithm(make_valid, roles=[algorithm_roles()["discrete"]])
    with pytest.raises(ContractError, match="rejects every role — 0: dummy-gradient chooses among discrete actions"):
        check_algorithm(make_valid, roles=[algorithm_roles()["continuous"]])


def test_the_message_names_the_role():
    """The message starts with the role of the failed check."""
    assert_rejected(
        with_policy(extras(value=lambda array: array * np.nan)), "on role 'discrete': extra 'value' is not finite"
    )


class Unmasked(Wrapper):
    def act(self, inputs, **options):
        return self.inner.act(attrs.evolve(inputs, action_mask=None), **options)


class OwnRandomness(Wrapper):
    rng = np.random.default_rng(0)

    def act(self, inputs, *, rng, **options):
        return self.inner.act(inputs, rng=self.rng, **options)


class AlwaysSampling(Wrapper):
    def act(self, inputs, *, rng, deterministic=False):
        return self.inner.act(inputs, rng=rng, deterministic=False)


class MixingRows(Wrapper):
    def evaluate(self, inputs):
        first = next(iter(inputs.observation.values())).astype(np.float32)
        return self.inner.evaluate(inputs) + np.float32(first.mean())


class WideValues(Wrapper):
    def evaluate(self, inputs):
        return self.inner.evaluate(inputs).astype(np.float64)


class Peeking(Wrapper):
    def act(self, inputs, **options):
        decision = self.inner.act(inputs, **options)
        if inputs.privileged and inputs.action_mask is not None:
            decision.action = inputs.action_mask.argmax(1)[:, None]
        return decision


class NeedingMasks(Wrapper):
    def act(self, inputs, **options):
        decision = self.inner.act(inputs, **options)
        if inputs.action_mask is None:
            decision.action = np.zeros_like(decision.action)
        return decision


class SharingMemory(Wrapper):
    def load(self, weights):
        self.inner.load(weights)
        self.inner.policy = weights["policy"]


class LoadingAnything(Wrapper):
    def load(self, weights):
        if weights:
            self.inner.load(weights)


POLICY_DEFECTS = {
    "chose a masked action": Unmasked,
    "on role 'discrete': act returned None, expected a ludus.algorithm.Decision": acting(lambda *_: None),
    "act's action is int32 .*, expected int64": acting(
        lambda decision, _: attrs.evolve(decision, action=decision.action.astype(np.int32))
    ),
    "act returned an action outside of D": acting(
        lambda decision, _: attrs.evolve(decision, action=decision.action + 9)
    ),
    r"act returned \['log_prob'\], not": acting(
        lambda decision, _: attrs.evolve(decision, extras={"log_prob": decision.extras["log_prob"]})
    ),
    "extra 'value' is float64 .*, expected float32": extras(value=lambda array: array.astype(np.float64)),
    "not a function of its arguments and rng": OwnRandomness,
    "deterministic decisions depend on rng": AlwaysSampling,
    "a row's value depends on the other rows": MixingRows,
    r"evaluate is float64 .*, expected float32": WideValues,
    r"act's value is float32 \(1, 1\), expected float32 \(1,\)": valued(lambda value: value[:, None]),
    r"discrete': act's value is float64 \(1,\), expected float32": valued(lambda value: value.astype(np.float64)),
    "act's value is not finite": valued(lambda value: np.full_like(value, np.inf)),
    "act's value is not what evaluate returns": valued(lambda value: value + 1),
    "privileged leaves change the actions of the policy": Peeking,
    "no mask is not the same as a mask that allows everything": NeedingMasks,
    "shares memory with the weights": SharingMemory,
    "the policy accepts weights without any array": LoadingAnything,
}


@pytest.mark.parametrize("message", POLICY_DEFECTS)
def test_defects_of_policies_are_reported(message):
    """The message names the defect."""
    assert_rejected(with_policy(POLICY_DEFECTS[message]), message)


class Idle(Wrapper):
    def update(self, batch, *, progress):
        before = self.inner.weights()
        result = self.inner.update(batch, progress=progress)
        self.inner.load_weights(before)
        return result


class BadMetric(Wrapper):
    def update(self, batch, *, progress):
        result = self.inner.update(batch, progress=progress)
        return attrs.evolve(result, metrics=result.metrics | {"entropy": float("inf")})


class BadCount(Wrapper):
    def update(self, batch, *, progress):
        return attrs.evolve(self.inner.update(batch, progress=progress), samples=0)


class NotCopying(Wrapper):
    def weights(self):
        return {"policy": self.inner._policy.policy, "value": self.inner._policy.value}


class Forgetful(Wrapper):
    def load_state(self, state):
        pass


class HiddenState(Wrapper):
    updates = 0

    def update(self, batch, *, progress):
        self.updates += 1
        batch = copy.copy(batch)
        batch.reward = batch.reward * self.updates
        return self.inner.update(batch, progress=progress)


class Swallowing(Wrapper):
    def update(self, batch, *, progress):
        batch = copy.copy(batch)
        batch.reward = np.nan_to_num(batch.reward)
        return self.inner.update(batch, progress=progress)


class Poisoned(Wrapper):
    def update(self, batch, *, progress):
        try:
            return self.inner.update(batch, progress=progress)
        except ContractError:
            self.inner.load_weights({name: array + 1 for name, array in self.inner.weights().items()})
            raise


class Writing(Wrapper):
    def update(self, batch, *, progress):
        batch.reward *= 0.5
        return self.inner.update(batch, progress=progress)


class Mute(Wrapper):
    def update(self, batch, *, progress):
        self.inner.update(batch, progress=progress)


class Unseeded(Wrapper):
    def __init__(self, inner) -> None:
        super().__init__(inner)
        noise = np.random.default_rng().standard_normal()
        inner.load_weights({name: array + noise for name, array in inner.weights().items()})


TRAINER_DEFECTS = {
    "updates changed no weight": Idle,
    "metrics that are not finite: entropy": BadMetric,
    "samples and gradient_steps disagree": BadCount,
    r"weights\(\) is not a copy": NotCopying,
    "load_state and state are not inverse": Forgetful,
    "a resumed trainer learns other weights": HiddenState,
    "accepted NaN rewards": Swallowing,
    "a rejected update changed the weights": Poisoned,
    "initial weights do not follow from the seed": Unseeded,
    r"on role 'discrete': .*test_check_algorithm, line \d+, raised ValueError: .* read-only": Writing,
    "update returned None, expected a ludus.algorithm.UpdateResult": Mute,
}


@pytest.mark.parametrize("message", TRAINER_DEFECTS)
def test_defects_of_trainers_are_reported(message):
    """The message names the defect."""
    assert_rejected(with_trainer(TRAINER_DEFECTS[message]), message)


def test_actions_outside_of_a_box_are_reported():
    """Continuous actions must lie in their space."""

    class Policy(LinearPolicy):
        def act(self, inputs, **_):
            rows = len(inputs.observation["obs"])
            decision = super().act(attrs.evolve(inputs, action_mask=None), rng=np.random.default_rng())
            return attrs.evolve(decision, action=np.full((rows, 2), 2.0, np.float32))

    class Continuous(Gradient):
        def __init__(self, context) -> None:
            discrete = attrs.evolve(context.role, action_space=spaces.Discrete(2))
            super().__init__(GradientConfig(), context=attrs.evolve(context, role=discrete))

        def make_policy(self):
            return Policy(self._features, self._sizes)

    with pytest.raises(ContractError, match="act returned an action outside of Box"):
        check_algorithm(Continuous, roles=[algorithm_roles()["continuous"]])


def test_synthetic_batches_cover_every_case():
    """Full and short segments, terminations, truncations with their final observation, and undefined entries."""
    role = algorithm_roles()["multi-discrete"]
    algorithm = make_valid(attrs.make_class("Context", ["role"])(role))
    batch = synthetic_batch(algorithm, role, algorithm.make_policy(), rng=np.random.default_rng(0), segments=50)
    batch.check()
    last = batch.decided.shape[0] - 1
    assert batch.length.max() == last
    assert batch.length.min() < last
    assert batch.terminated.any()
    after = np.roll(batch.truncated, 1, axis=0)
    assert after.any()
    assert not batch.decided[after].any()
    assert not (batch.truncated & batch.terminated).any()
    assert np.isfinite(batch.reward[batch.trainable()]).all()
    assert np.isnan(batch.reward[~batch.trainable()]).all()
    entry = np.arange(last + 1)[:, None]
    np.testing.assert_array_equal(np.isfinite(batch.extras["value"]), entry <= batch.length)
