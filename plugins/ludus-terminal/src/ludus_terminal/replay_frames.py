"""The frames of a replay, with the decisions and what the participants expected beside them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import define, evolve, field
from ludus.environment import Environment, Playable
from ludus.errors import ReplayError
from ludus.rendering import Frame, Scene, draw_match
from ludus.replays import ReplayStep, SeatDecision
from ludus.spaces import is_continuous, is_hybrid, label_sizes

from ludus_terminal.drawing import Drawing

__all__ = ["ReplayFrames", "decision_json", "decision_text"]

_CHOICES = 4  # most likely choices of a label that are listed


@define(eq=False)
class ReplayFrames:
    """Collects the frames of a match, since a match cannot be stepped back.

    Args:
        environment: The environment, which plays the match.
        drawing: Draws frames as images.
        text: Whether the text of the match is shown, if the environment has some, instead of its frame.
    """

    environment: Environment
    drawing: Drawing
    text: bool
    _frames: list[Frame] = field(init=False, factory=list)
    _texts: list[str] = field(init=False, factory=list)
    _lines: list[list[str]] = field(init=False, factory=list)

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, step: ReplayStep) -> None:
        """Draw the present tick.

        Raises:
            ReplayError: The environment cannot be drawn.
        """
        frame = draw_match(self.environment, 0)
        if frame is None:
            name = self.environment.spec.name
            raise ReplayError(f"environment {name!r} cannot be drawn: it has no frames and no text; use --json")
        self._frames.append(frame)
        if self.text:
            self._texts.append(self.environment.render(0) if isinstance(self.environment, Playable) else "")
        self._lines.append([decision_text(decision, self.environment) for decision in step.decisions])

    def shown(self, number: int) -> Frame:
        """Return the frame of a tick, with its decisions."""
        frame = self._texts[number] if self.text and self._texts[number] else self._frames[number]
        lines = [f"tick {number} of {len(self) - 1}", *self._lines[number]]
        if isinstance(frame, str):
            return "\n".join([frame, *lines])
        if isinstance(frame, Scene):
            return evolve(frame, caption="\n".join([*frame.caption.splitlines(), *lines]))
        return _stacked(self.drawing(frame), self.drawing("\n".join(lines)))

    def images(self, first: int) -> list[np.ndarray]:
        """Return the images ``[H, W, 3] uint8`` of all ticks from `first` on, all of one size."""
        lines = max(map(len, self._lines))
        self._lines = [[*own, *[""] * (lines - len(own))] for own in self._lines]
        images = [self.drawing(self.shown(number)) for number in range(first, len(self))]
        height, width = (max(image.shape[axis] for image in images) for axis in range(2))
        return [_padded(image, height, width) for image in images]


def _stacked(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    width = max(upper.shape[1], lower.shape[1])
    return np.concatenate([_padded(image, image.shape[0], width) for image in (upper, lower)])


def _padded(image: np.ndarray, height: int, width: int) -> np.ndarray:
    margins = ((0, height - image.shape[0]), (0, width - image.shape[1]), (0, 0))
    return np.pad(image, margins) if image.shape[:2] != (height, width) else image


# -- decisions -------------------------------------------------------------------------------------------------------


def decision_text(decision: SeatDecision, environment: Environment) -> str:
    """Return a decision as one line: participant, action, probabilities of the likely choices, and value."""
    parts = [f"seat {decision.seat} {decision.participant}: {_action_name(decision, environment)}"]
    for label, choices in enumerate(_likely_choices(decision, environment)):
        parts.append(("" if not label else f"label {label}: ") + ", ".join(f"{name} {p:.0%}" for name, p in choices))
    if decision.value is not None:
        parts.append(f"value {decision.value:+.2f}")
    return " | ".join(parts)


def decision_json(decision: SeatDecision, environment: Environment) -> dict[str, Any]:
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


def _action_name(decision: SeatDecision, environment: Environment) -> str:
    if isinstance(environment, Playable):
        return environment.action_name(decision.role, decision.action)
    return " ".join(f"{number:g}" for number in decision.action.tolist())


def _label_probabilities(decision: SeatDecision, environment: Environment) -> list[np.ndarray] | None:
    """Return the probabilities of the choices of each label; None where they are unknown."""
    space = environment.spec.role(decision.role).action_space
    if decision.probabilities is None or is_continuous(space) or is_hybrid(space):
        return None
    bounds = np.cumsum([0, *label_sizes(space)]).tolist()
    return [decision.probabilities[start:stop] for start, stop in pairwise(bounds)]


def _likely_choices(decision: SeatDecision, environment: Environment) -> Iterator[list[tuple[str, float]]]:
    """Yield names and probabilities of the most likely choices of each label."""
    labels = _label_probabilities(decision, environment) or []
    for label in labels:
        best = np.argsort(-label, kind="stable")[:_CHOICES]
        names = {int(choice): str(choice) for choice in best}
        if len(labels) == 1 and isinstance(environment, Playable):
            names = {choice: environment.action_name(decision.role, np.array([choice])) for choice in names}
        yield [(names[int(choice)], float(label[choice])) for choice in best]
