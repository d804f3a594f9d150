"""The average of several policies, as in fictitious play."""

from __future__ import annotations

import numpy as np

from ludus_openspiel.tree import InformationStates

__all__ = ["average_policy", "reach"]


def reach(policies: np.ndarray, *, states: InformationStates) -> np.ndarray:
    r"""Return the probability with which a player's own decisions lead to each information state.

    With perfect recall it is the product of the player's own action probabilities on the path,
    :math:`x_k(s) = x_k(parent(s)) \pi_k(parent\_action(s) | parent(s))`, and 1 before its first decision.

    Args:
        policies: ``[K, N, A]`` action probabilities of K policies.
        states: The N information states.

    Returns:
        ``[K, N] float64``.
    """
    reached = np.ones(policies.shape[:2])
    for number, (parent, action) in enumerate(zip(states.parent.tolist(), states.parent_action.tolist(), strict=True)):
        if parent >= 0:
            reached[:, number] = reached[:, parent] * policies[:, parent, action]
    return reached


def average_policy(policies: np.ndarray, *, states: InformationStates, weights: np.ndarray | None = None) -> np.ndarray:
    r"""Return the policy that plays like a mixture of K policies, as in fictitious play.

    The mixture draws policy k with probability :math:`w_k` at the start of a match and follows it. The equivalent
    policy in an information state s weighs the K policies by how often they reach s (Kuhn's theorem),

    .. math:: \bar\pi(a|s) = \frac{\sum_k w_k x_k(s) \pi_k(a|s)}{\sum_k w_k x_k(s)},

    with :math:`x_k(s)` from `reach`. In states that no policy reaches, which no opponent can exploit, it is the
    weighted mean.

    Args:
        policies: ``[K, N, A]`` action probabilities.
        states: The N information states.
        weights: ``[K]``, ≥ 0 and not all 0; None means equal weights.

    Returns:
        ``[N, A] float64``.
    """
    share = np.ones(len(policies)) if weights is None else weights
    mass = share[:, None] * reach(policies, states=states)
    mass[:, mass.sum(axis=0) == 0] = share[:, None]
    return np.asarray(np.einsum("kn,kna->na", mass, policies) / mass.sum(axis=0)[:, None])
