"""The diversity of pools: how far the behaviours of their members are apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from ludus.matchmaker import Statistic
from ludus.runs import Run
from rich.console import RenderableType
from rich.markup import escape

from ludus_terminal.views import Data, table

__all__ = ["pool_diversity", "show_diversity"]

_MAX_MEMBERS = 200  # of a pool, the newest ones


def pool_diversity(run: Run) -> list[Data]:
    r"""Return how far the behaviours of the members of each pool are apart, by pool and role.

    The scale of a statistic goes from 0, the lowest mean of the members of all pools and of the anchors, to 1, the
    highest. The distance of two members is the root mean square of their differences over the :math:`K` statistics,

    .. math:: d_{ij} = \sqrt{\tfrac{1}{K} \sum_k (x_{ik} - x_{jk})^2}.

    A row has the numbers of compared ``members`` and ``statistics``, the mean ``distance`` of all pairs, and the
    distance ``by_chance`` that members of equal behaviour would have because of their finite numbers of matches. Pools
    without two evaluated members of a role have no row. Of more than 200 members the newest are compared.
    """
    pools = {pool: list(run.pools[pool])[-_MAX_MEMBERS:] for pool in sorted(run.pools)}
    names = {*run.league.anchors}.union(*pools.values())
    rows = []
    for role, known in _by_role({name: run.league.statistics(name) for name in sorted(names)}).items():
        spans = _spans(list(known.values()))
        for pool, members in pools.items():
            compared = [known[name] for name in members if name in known]
            if len(compared) > 1 and spans:
                rows.append({"pool": pool, "role": role, **_distances(compared, spans)})
    return rows


def _by_role(statistics: Mapping[str, Mapping[str, Statistic]]) -> dict[str, dict[str, dict[str, Statistic]]]:
    """Return statistics by role, participant and name."""
    roles: dict[str, dict[str, dict[str, Statistic]]] = {}
    for participant, found in statistics.items():
        for key, statistic in found.items():
            role, _, name = key.partition("/")
            roles.setdefault(role, {}).setdefault(participant, {})[name] = statistic
    return dict(sorted(roles.items()))


def _spans(known: Sequence[Mapping[str, Statistic]]) -> dict[str, float]:
    """Return the highest mean minus the lowest one of each statistic that all participants have, if they differ."""
    names = set(known[0]).intersection(*known)
    means = {name: [found[name].mean for found in known] for name in sorted(names)}
    return {name: max(values) - min(values) for name, values in means.items() if max(values) > min(values)}


def _distances(members: Sequence[Mapping[str, Statistic]], spans: Mapping[str, float]) -> Data:
    """Return the values of a row; at least two members and one statistic."""
    shape = len(members), len(spans)
    flat = [(found[name], span) for found in members for name, span in spans.items()]
    means = np.array([statistic.mean / span for statistic, span in flat]).reshape(shape)
    errors = np.array([statistic.deviation / statistic.matches**0.5 / span for statistic, span in flat]).reshape(shape)
    first, second = np.triu_indices(len(members), 1)
    distances = np.sqrt(np.square(means[first] - means[second]).mean(axis=1))
    by_chance = np.sqrt((np.square(errors[first]) + np.square(errors[second])).mean(axis=1))
    return {
        "members": len(members),
        "statistics": len(spans),
        "distance": float(distances.mean()),
        "by_chance": float(by_chance.mean()),
    }


def show_diversity(rows: Sequence[Data]) -> Iterable[RenderableType]:
    """Show the rows of `pool_diversity`."""
    if not rows:
        return
    shown = table(
        "Diversity of pools", "pool", "role", ">members", ">statistics", ">mean distance", ">distance by chance"
    )
    for row in rows:
        numbers = (f"{row['members']:,}", f"{row['statistics']:,}", f"{row['distance']:.3f}", f"{row['by_chance']:.3f}")
        shown.add_row(escape(row["pool"]), escape(row["role"]), *numbers)
    yield shown
