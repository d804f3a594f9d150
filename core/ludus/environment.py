"""The environment contract: a game that steps `num_matches` matches at once.

Everything is batched over matches (axis 0) and, per role, over seats (axis 1). B = number of matches,
S = seats of a role, L = action labels, A = total number of discrete choices over all labels.

Life of the matches at one match index::

    reset([seed], indices=[i]) → acting … step(actions) … → terminated[i] | truncated[i]
                               ↑                                     │
                               └────── reset([seed], indices=[i]) ───┘

`step` never starts a match: the caller chooses the seed and scenario of every match. The tick that ends a match
holds the *final* observation of that match. The caller reads it, then resets the ended matches in place while the
others continue. A match that has ended and is not reset is idle: no seat acts, rewards are 0, and it does not end
again. A running match may be reset too; it is then discarded.

Turn-based, simultaneous and asynchronous games differ only in which seats are `acting` on a tick of a running match:
exactly one seat, at least one seat, or any subset, which may be empty for some ticks. In a match with built-in bots
no seat acts on the ticks on which only bots move.

A seat may end before its match, in roles with `Role.seat_endings`. It does not act again in that match, and its last
decision gets the rewards up to and including the tick on which it ends. A *terminated* seat never bootstraps; a
*truncated* one does, from its observation of that tick. Later rewards of the seat, such as those of its team, count in
the returns of the match but are not learned from. If they shall belong to a seat that plays no more, do not flag its
end: its last decision then stays pending and collects rewards until the match ends.
A match that is lost because its game fails is marked in `Tick.void`. `ludus.testing.check_environment` checks all this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from attrs import define, field, frozen
from attrs.validators import deep_iterable

from ludus import option
from ludus.errors import ContractError
from ludus.scenario import Scenario, checked_scenarios

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import Space

__all__ = [
    "Environment",
    "EnvironmentSpec",
    "Leaves",
    "Playable",
    "Role",
    "RoleTick",
    "Scenario",
    "Seat",
    "Tick",
    "allocate_tick",
    "checked_scenarios",
]

#: Named arrays with a common batch shape. A plain (non-Dict) space has the single leaf ``"obs"``.
Leaves: TypeAlias = "dict[str, np.ndarray]"


@frozen(kw_only=True)
class Role:
    """A kind of participant with its own spaces.

    Args:
        name: For example ``"player"``, ``"cat"``.
        observation_space: A Box/Discrete-like space (one leaf ``"obs"``) or a flat Dict of such spaces (one
            leaf each).
        action_space: Discrete (one label), MultiDiscrete (one label per entry), MultiBinary, a one-dimensional Box, or
            a Tuple or Dict of them. An action has a column for each label, then one for each real number of a Box.
        teams: The team index of each seat of this role; its length is the number of seats S.
        privileged_space: What critics may read in addition and policies never see, as a Dict space;
            None where there is nothing.
        labels_used: For every choice of the first action label, which of the L labels such an action uses,
            ``[n_0][L]``: a skill uses its direction. Nothing is learned for the others. None: all are used.
        seat_endings: Whether a seat may end before its match; ticks then hold `RoleTick.terminated` and `truncated`.
        statistics: Names of the statistics of a seat, see `RoleTick.statistics`.
        guidance: Reward parts whose weight falls linearly to 0 over the run [AET §3.2.4], unless interfaces fade them.
        seat_names: Name of each seat in messages, such as that of an agent of a library; empty: numbers only.
        builtin: Names of the built-in bots that can fill seats of this role, see `EnvironmentSpec.builtin`.
    """

    name: str = field(validator=option.name())
    observation_space: Space[Any]
    action_space: Space[Any]
    teams: tuple[int, ...]
    privileged_space: Space[Any] | None = None
    labels_used: tuple[tuple[bool, ...], ...] | None = None
    seat_endings: bool = False
    statistics: tuple[str, ...] = field(default=(), validator=deep_iterable(option.name()))
    guidance: tuple[str, ...] = ()
    seat_names: tuple[str, ...] = ()
    builtin: tuple[str, ...] = field(default=(), validator=deep_iterable(option.name()))

    def __attrs_post_init__(self) -> None:
        if self.labels_used is None:
            return
        from ludus.spaces import label_sizes  # noqa: PLC0415 - code that makes a role has imported gymnasium already

        sizes = label_sizes(self.action_space)
        choices = sizes[0] if sizes else 0
        expected = f"role {self.name!r}: labels_used: expected one entry per choice of the first label ({choices})"
        if len(self.labels_used) != choices:
            raise ContractError(f"{expected}, got {len(self.labels_used)}")
        if any(len(used) != len(sizes) or not used[0] for used in self.labels_used):
            raise ContractError(f"{expected}, each with {len(sizes)} flags of which the first is True")

    @property
    def num_seats(self) -> int:
        """Return S, the number of seats of this role."""
        return len(self.teams)


@frozen
class Seat:
    """One controllable position of a match."""

    role: str
    index: int  # within the role
    team: int


@frozen(kw_only=True)
class EnvironmentSpec:
    """Everything about a game that is known before a match starts.

    Args:
        name: The environment's registered name.
        roles: The roles, in a fixed order; seats are numbered through them in that order.
        turn: Which seats act on a tick: one seat, all living seats, or any subset.
        tick_s: Game time of one tick in seconds, None where it has no meaning.
        max_ticks: A match is truncated or terminated after at most so many ticks, None if unbounded.
        scenarios: Names of the scenarios offered besides ``"default"``.
        zero_sum: The rewards of all seats sum to 0 on every tick.
        constant_sum: The outcomes of all teams sum to 1 in every match.
        symmetric: Exchanging the seats of a match and their actions exchanges rewards and outcomes.
        perfect_information: Every acting seat sees the full state.
        reward_range: Known bounds (low, high) of one seat's reward on one tick, None if unknown.
        sparse_rewards: A seat gets no reward before the tick on which it ends, such as ±1 for win and loss.
        repeatable: A match is a function of seed, scenario and actions alone. Otherwise its replay keeps its frames.
        score: What measures a participant: the outcome of its matches, or their return where outcomes mean little.
            Returns are then logged with evaluation matches as the statistic ``return`` of every role, also in all games
            of one team. With several teams, runs derive outcomes from returns (docs/environments.md).
        outcome_rule: What decides the outcome of a match, in words, for ``ludus check``; empty: not described.
        notes: What the environment decided by itself, such as the layout of images; ``ludus check`` prints the lines.
    """

    name: str = field(validator=option.name())
    roles: tuple[Role, ...]
    turn: Literal["turn-based", "simultaneous", "asynchronous"]
    tick_s: float | None = None
    max_ticks: int | None = None
    scenarios: tuple[str, ...] = ()
    zero_sum: bool = False
    constant_sum: bool = False
    symmetric: bool = False
    perfect_information: bool = False
    reward_range: tuple[float, float] | None = None
    sparse_rewards: bool = False
    repeatable: bool = True
    score: Literal["outcome", "return"] = "outcome"
    outcome_rule: str = ""
    notes: tuple[str, ...] = ()

    @property
    def seats(self) -> tuple[Seat, ...]:
        """Return all seats in their fixed order: role by role."""
        return tuple(Seat(role.name, i, team) for role in self.roles for i, team in enumerate(role.teams))

    @property
    def builtin(self) -> tuple[tuple[str, ...], ...]:
        """Return the names of the built-in bots of every seat.

        A built-in bot is a part of the game that plays a seat, such as the computer opponent of a video game. A match
        has bots where `Scenario.builtin` names them. Their seats never act and get rewards as all seats do. On ticks on
        which only bots move, no seat acts.
        """
        return tuple(role.builtin for role in self.roles for _ in role.teams)

    @property
    def num_teams(self) -> int:
        """Return the number of teams."""
        return 1 + max(team for role in self.roles for team in role.teams)

    @property
    def logs_returns(self) -> bool:
        """Return whether evaluation matches log the returns of all seats."""
        return self.score == "return" or self.num_teams == 1

    @property
    def compares_returns(self) -> bool:
        """Return whether the outcomes that a run logs follow from the returns of the teams of a match."""
        return self.score == "return" and self.num_teams > 1

    def role(self, name: str) -> Role:
        """Return the role called `name`.

        Raises:
            KeyError: There is no such role.
        """
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(f"{self.name} has no role {name!r}; it has {', '.join(r.name for r in self.roles)}")


@define(kw_only=True)
class RoleTick:
    """Observation, legal actions and reward of the seats of one role on one tick.

    Attributes:
        observation: Leaves ``[B, S, …]`` in the dtypes of the role's observation space.
        acting: ``[B, S] bool``: the seat must decide on this tick.
        action_mask: ``[B, S, A] bool``, the masks of all labels side by side (label l occupies
            ``n_0+…+n_{l-1} : n_0+…+n_l``), or None where every action is always legal, as in a Box.
            Never all False within a label of an acting seat. On the tick that truncates a match or a seat, its entries
            hold what would be legal if it went on, or leave some label without a choice (all False) where that is
            unknown. Other entries of seats that do not act are undefined.
        reward: ``[B, S] float32``, for any seat on any tick: what the step that led here earned.
        reward_parts: Named parts that sum to the reward, each ``[B, S] float32``; may be empty.
        privileged: Leaves ``[B, S, …]`` for critics only, under other names than the observation's; empty where the
            role declares none.
        terminated: ``[B, S] bool``: the seat ended by the rules on this tick, before its match or with it. True on one
            tick only. None without `Role.seat_endings`.
        truncated: ``[B, S] bool``: the seat was cut off on this tick. None without `Role.seat_endings`.
        statistics: What a seat has done in its match, such as counts, rates and positions, each ``[B, S] float32``, by
            the names of `Role.statistics`. They are read on the tick that ends the match, logged with evaluation
            matches, and no part of learning. They may change until then, and stay until the match index is reset.
        dropped: ``[B, S] bool``, read where a seat acts or ends: its last action was not executed. That decision is
            not learned from; the one before it gets the rewards. None: all are executed.
    """

    observation: Leaves
    acting: np.ndarray
    action_mask: np.ndarray | None
    reward: np.ndarray
    reward_parts: dict[str, np.ndarray] = field(factory=dict)
    privileged: Leaves = field(factory=dict)
    terminated: np.ndarray | None = None
    truncated: np.ndarray | None = None
    statistics: dict[str, np.ndarray] = field(factory=dict)
    dropped: np.ndarray | None = None

    def clear(self, indices: np.ndarray | slice) -> None:
        """Set rewards, reward parts and ends of seats of the matches at `indices` to 0."""
        for array in (self.reward, *self.reward_parts.values(), self.terminated, self.truncated):
            if array is not None:
                array[indices] = 0


@define(kw_only=True)
class Tick:
    """The state of all matches after a reset or a step.

    The arrays belong to the environment and are overwritten by the next `step` or `reset`: copy what you keep.

    Attributes:
        roles: One `RoleTick` per role name.
        terminated: ``[B] bool``: the match ended by its rules on this tick. True on one tick only. It ends all seats
            that have not ended, in the same way unless they have flags of their own on this tick.
        truncated: ``[B] bool``: the match was cut off on this tick (time limit outside its rules).
        outcome: ``[B, teams] float32``: 1 win, ½ draw, 0 loss; meaningful where terminated or truncated.
        void: ``[B] bool``: a failure outside its rules ended the match on this tick, without rewards; it is neither
            terminated nor truncated. It counts nowhere and is played again. None: no match is ever void.
        elapsed_ticks: ``[B] int32``: ticks of the game that the step took, for discounts per tick. None: one.
    """

    roles: dict[str, RoleTick]
    terminated: np.ndarray
    truncated: np.ndarray
    outcome: np.ndarray
    void: np.ndarray | None = None
    elapsed_ticks: np.ndarray | None = None

    def clear(self, indices: np.ndarray | slice) -> None:
        """Set rewards, reward parts, `terminated` and `truncated` of the matches at `indices` to 0; for `reset`."""
        for role in self.roles.values():
            role.clear(indices)
        for array in (self.terminated, self.truncated, self.void):
            if array is not None:
                array[indices] = False


def allocate_tick(
    spec: EnvironmentSpec,
    num_matches: int,
    *,
    masked_roles: Collection[str] = (),
    reward_parts: Mapping[str, Collection[str]] | None = None,
    allocate: Callable[[tuple[int, ...], Any], np.ndarray] | None = None,
) -> Tick:
    """Allocate the arrays of a tick, all zero, in the shapes and dtypes of the spec.

    Args:
        spec: The environment's.
        num_matches: B.
        masked_roles: Names of the roles that get an action mask.
        reward_parts: Names of the reward parts of each role; None means no parts.
        allocate: Returns a zeroed array of a shape and dtype; None means `numpy.zeros`.
    """
    import numpy as np  # noqa: PLC0415 - plugin modules import this module, and must not import numpy

    from ludus.spaces import label_sizes, leaf_spaces  # noqa: PLC0415 - as above

    zeros = np.zeros if allocate is None else allocate

    def leaves(space: Space[Any] | None, seats: tuple[int, int]) -> Leaves:
        return {name: zeros((*seats, *(leaf.shape or ())), leaf.dtype) for name, leaf in leaf_spaces(space).items()}

    roles = {}
    for role in spec.roles:
        seats = (num_matches, role.num_seats)
        masked, parts = role.name in masked_roles, (reward_parts or {}).get(role.name, ())
        roles[role.name] = RoleTick(
            observation=leaves(role.observation_space, seats),
            acting=zeros(seats, bool),
            action_mask=zeros((*seats, sum(label_sizes(role.action_space))), bool) if masked else None,
            reward=zeros(seats, np.float32),
            reward_parts={part: zeros(seats, np.float32) for part in parts},
            privileged=leaves(role.privileged_space, seats),
            terminated=zeros(seats, bool) if role.seat_endings else None,
            truncated=zeros(seats, bool) if role.seat_endings else None,
            statistics={name: zeros(seats, np.float32) for name in role.statistics},
        )
    return Tick(
        roles=roles,
        terminated=zeros((num_matches,), bool),
        truncated=zeros((num_matches,), bool),
        outcome=zeros((num_matches, spec.num_teams), np.float32),
    )


class Environment(Protocol):
    """A batched game, made by the factory of an ``environment`` component and used by one thread."""

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the roles, spaces and properties of the game."""

    @property
    def num_matches(self) -> int:
        """Return B, the number of matches stepped at once."""

    def reset(
        self,
        seeds: np.ndarray,
        *,
        indices: np.ndarray | None = None,
        scenarios: Sequence[Scenario] | None = None,
    ) -> Tick:
        """Start new matches at the given match indices and leave the other matches as they are.

        Args:
            seeds: ``[n] uint64``; a match is a function of seed, scenario and actions alone if it is `repeatable`.
            indices: ``[n] int64`` match indices; None means all B matches.
            scenarios: One per match reset; None means the default scenario for all.

        Returns:
            The tick of all matches. `reward`, `terminated` and `truncated` of the matches reset are 0/False, those of
            the other matches are unchanged.

        Raises:
            ContractError: A scenario or one of its parameters is unknown.
        """

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick.

        Args:
            actions: Per role ``[B, S, L] int64``, or ``[B, S, D] float32`` for a Box action space. Entries of
                seats that are not acting are ignored. The arrays belong to the caller, which reuses them:
                `step` neither writes to them nor keeps them.

        Raises:
            ContractError: A choice is out of range, or an action is illegal and the rules do not define its result;
                no match has advanced.
        """

    def close(self) -> None:
        """Free processes, files and windows; closing twice is harmless."""


@runtime_checkable
class Playable(Protocol):
    """Optional methods of an environment that people can watch and play in a terminal."""

    def render(self, match: int) -> str:
        """Return the match at match index `match` as text; ANSI colours are allowed."""

    def action_name(self, role: str, action: np.ndarray) -> str:
        """Return a short name of ``action [L]``, as a person would type it."""

    def parse_action(self, role: str, text: str) -> np.ndarray:
        """Parse a typed action into ``[L] int64``.

        Raises:
            ValueError: The text is not an action; the message lists what is.
        """
