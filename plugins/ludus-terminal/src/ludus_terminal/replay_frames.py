"""The frames of a replay, with the decisions and what the participants expected beside them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import define, evolve, field
from ludus.environment import Environment, Playable
from ludus.errors import ReplayError
from ludus.rendering import Frame, Scene, draw_match
from ludus.replays import Replay, ReplayStep, SeatDecision, stream_steps
from ludus.spaces import is_continuous, is_hybrid, label_sizes

from ludus_terminal.drawing import Drawing

__all__ = ["ReplayFrames", "decision_json", "decision_text"]

_CHOICES = 4  # most likely choices of a label that are listed


@define(eq=False)
class ReplayFrames:
    """The frames of a match, which are kept since a match cannot be stepped back.

    Args:
        ticks: Length of the match.
        drawing: Draws frames as images.
    """

    ticks: int
    drawing: Drawing
    _frames: list[Frame] = field(init=False, factory=list)
    _numbers: list[int] = field(init=False, factory=list)  # of the ticks
    _lines: list[list[str]] = field(init=False, factory=list)
    _clock: int = field(init=False, default=0)  # ticks of the game until the last frame of a stream

    def __len__(self) -> int:
        return len(self._frames)

    def draw_step(self, step: ReplayStep, environment: Environment, *, text: bool) -> None:
        """Draw the present tick of a match that is played.

        Args:
            step: The tick.
            environment: The environment, which plays the match.
            text: Whether the text of the match is shown, if the environment has some, instead of its frame.

        Raises:
            ReplayError: The environment cannot be drawn.
        """
        has_text = text and isinstance(environment, Playable)
        frame = environment.render(0) if has_text else draw_match(environment, 0)  # type: ignore[attr-defined]
        if frame is None:
            name = environment.spec.name
            raise ReplayError(f"environment {name!r} cannot be drawn: it has no frames and no text; use --json")
        self._add(step.number, frame, [decision_text(decision, environment) for decision in step.decisions])

    def add_stream(self, replay: Replay) -> None:
        """Add the frames of a recorded stream, as far as there are some.

        Raises:
            ReplayError: There are none, or they are malformed.
        """
        for step in stream_steps(replay):
            if step.frame is not None:
                self._add(step.number, step.frame, [decision_text(decision, None) for decision in step.decisions])
                self._clock = step.clock
        if not self._frames:
            raise ReplayError(f"match {replay.name} has no frames: its game draws images, or nothing; use --json")

    def _add(self, number: int, frame: Frame, lines: list[str]) -> None:
        self._frames.append(frame)
        self._numbers.append(number)
        self._lines.append(lines)

    @property
    def ticks_between(self) -> float:
        """Return the mean number of ticks of the game between two frames of a stream; 1 for a match that was played."""
        return self._clock / (len(self) - 1) if self._clock else 1.0

    @property
    def last_tick(self) -> int:
        """Return the number of the last tick that has a frame."""
        return self._numbers[-1]

    def index_of(self, tick: int) -> int:
        """Return the index of the frame that is shown on a tick."""
        return max(bisect_right(self._numbers, tick) - 1, 0)

    def shown(self, index: int) -> Frame:
        """Return a frame with the decisions on its tick."""
        frame = self._frames[index]
        lines = [f"tick {self._numbers[index]} of {self.ticks}", *self._lines[index]]
        if isinstance(frame, str):
            return "\n".join([frame, *lines])
        if isinstance(frame, Scene):
            return evolve(frame, caption="\n".join([*frame.caption.splitlines(), *lines]))
        return _stacked(self.drawing(frame), self.drawing("\n".join(lines)))

    def images(self, first: int) -> list[np.ndarray]:
        """Return the images ``[H, W, 3] uint8`` of all frames from index `first` on, all of one size."""
        lines = max(map(len, self._lines))
        self._lines = [[*own, *[""] * (lines - len(own))] for own in self._lines]
        images = [self.drawing(self.shown(index)) for index in range(first, len(self))]
        height, width = (max(image.shape[axis] for image in images) for axis in range(2))
        return [_padded(image, height, width) for image in images]


def _stacked(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    width = max(upper.shape[1], lower.shape[1])
    return np.concatenate([_padded(image, image.shape[0], width) for image in (upper, lower)])


def _padded(image: np.ndarray, height: int, width: int) -> np.ndarray:
    margins = ((0, height - image.shape[0]), (0, width - image.shape[1]), (0, 0))
    return np.pad(image, margins) if image.shape[:2] != (height, width) else image


# -- decisions -------------------------------------------------------------------------------------------------------


def decision_text(decision: SeatDecision, environment: Environment | None) -> str:
    """Return a decision as one line: participant, action, probabilities of the likely choices, and value.

    Args:
        decision: The decision.
        environment: The environment, which names actions if it can; None for a recorded stream.
    """
    parts = [f"seat {decision.seat} {decision.participant}: {_action_name(decision, environment)}"]
    for label, choices in enumerate(_likely_choices(decision, environment)):
        parts.append(("" if not label else f"label {label}: ") + ", ".join(f"{name} {p:.0%}" for name, p in choices))
    if decision.value is not None:
        parts.append(f"value {decision.value:+.2f}")
    return " | ".join(parts)


def decision_json(decision: SeatDecision, environment: Environment | None) -> dict[str, Any]:
    """Return a decision as JSON values; ``"probabilities"`` has one list per label, None where they are unknown."""
    labels = _label_probabilities(decision, environment)
    return {
        "seat": decision.seat,
        "role": decision.role,
        "participant": decision.participant,
        "action": decision.action.tolist(),
        "name": _action_name(decision, environment),
        "probabilities": None if labels is None else [label.tolist() for label in labels],
        "value": decision.value,
    }


def _action_name(decision: SeatDecision, environment: Environment | None) -> str:
    if environment is not None and isinstance(environment, Playable):
        return environment.action_name(decision.role, decision.action)
    return " ".join(f"{number:g}" for number in decision.action.tolist())


def _label_probabilities(decision: SeatDecision, environment: Environment | None) -> list[np.ndarray] | None:
    """Return the probabilities of the choices of each label; None where they are unknown."""
    if decision.probabilities is None or environment is None:
        return None
    space = environment.spec.role(decision.role).action_space
    if is_continuous(space) or is_hybrid(space):
        return None
    bounds = np.cumsum([0, *label_sizes(space)]).tolist()
    return [decision.probabilities[start:stop] for start, stop in pairwise(bounds)]


def _likely_choices(decision: SeatDecision, environment: Environment | None) -> Iterator[list[tuple[str, float]]]:
    """Yield names and probabilities of the most likely choices of each label."""
    labels = _label_probabilities(decision, environment) or []
    for label in labels:
        best = np.argsort(-label, kind="stable")[:_CHOICES]
        names = {int(choice): str(choice) for choice in best}
        if len(labels) == 1 and environment is not None and isinstance(environment, Playable):
            names = {choice: environment.action_name(decision.role, np.array([choice])) for choice in names}
        yield [(names[int(choice)], float(label[choice])) for choice in best]
