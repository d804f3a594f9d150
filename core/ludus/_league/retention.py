"""Retention of models: which models leave their pools with age, and when their weights are deleted.

A model that no pool keeps is retired in one commit; its file is deleted after that commit, once no open fixture needs
it. A crash in between leaves the file, which the next start deletes. Manifests and the rows of the store are kept: the
log, the ratings and the lineage do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import define, field

from ludus._config.sections import RetentionSection
from ludus._league.changes import FreezeRequests
from ludus._league.league import League
from ludus.matchmaker import PoolChange

_INTERVAL_S = 5.0  # between two attempts to delete files


@define(kw_only=True)
class Retention:
    """Retires models, and deletes the files of retired models.

    Args:
        policies: By pool; other pools keep all of their models.
        league: The league, open for writing.
        requests: Freeze requests; models that players are reset to are kept.
        clock: Seconds.
    """

    policies: Mapping[str, RetentionSection]
    league: League
    requests: FreezeRequests
    clock: Callable[[], float]
    _entered: dict[str, dict[str, None]] = field(init=False, factory=dict)  # all that were in a pool, by pool
    _undeleted: set[str] = field(init=False, factory=set)
    _due_s: float = field(init=False, default=0.0)

    def start(self) -> None:
        """Read which models were in the pools, and delete the files that a crash has left."""
        for record in self.league.store.pools.records():
            if record.change.pool in self.policies and record.change.model in self.league.models:
                self._entered.setdefault(record.change.pool, {})[record.change.model] = None
        self._undeleted = {name for name in self.league.store.retired.names() if self._file(name).exists()}
        self._delete_unused()

    def apply(self) -> None:
        """Let models leave their pools, and retire those that nothing needs any more; the caller commits."""
        league = self.league
        for pool, policy in self.policies.items():
            members = league.pool(pool)
            self._entered.setdefault(pool, {}).update(dict.fromkeys(members))
            leaving = [model for model in members[: -policy.keep_newest] if not self._keeps(policy, model)]
            league.apply(PoolChange(pool=pool, model=model, enters=False) for model in leaving)
        candidates = {model for models in self._entered.values() for model in models} - league.roster.quarantined
        for model in sorted(candidates - self._needed()) if candidates else ():
            league.store.retired.add(model)
            league.roster.quarantine(model)
            self._undeleted.add(model)
            self._due_s = self.clock()

    def _keeps(self, policy: RetentionSection, model: str) -> bool:
        return policy.keep_every > 0 and self.league.models[model].number % policy.keep_every == 0

    def _needed(self) -> set[str]:
        """Return the models of all pools, those that policies keep, the newest of players, and those to start from."""
        models, needed = self.league.models, set[str]().union(*self.league.pools.values())
        for pool, entered in self._entered.items():
            needed.update(name for name in entered if self._keeps(self.policies[pool], name))
        needed.update(view.models[-1] for view in self.league.players.values() if view.models)
        inits = {model.manifest.get("init") for model in models.values()}
        inits |= {request.init for request in self.requests.pending.values()}
        return needed | {name for name, model in models.items() if model.hash in inits}

    def delete_files(self) -> None:
        """Delete the files of retired models that no open fixture needs; call it after a commit."""
        if self._undeleted and self.clock() >= self._due_s:
            self._delete_unused()

    def _delete_unused(self) -> None:
        self._due_s = self.clock() + _INTERVAL_S
        league = self.league
        playing = {name for fixture in league.store.fixtures.unfinished() for name in fixture.participants}
        retired = league.store.retired.names()
        shared = {model.hash for name, model in league.models.items() if name not in retired or name in playing}
        for model in self._undeleted - playing:
            if league.models[model].hash not in shared:  # equal weights are one file
                self._file(model).unlink(missing_ok=True)
            self._undeleted.discard(model)

    def _file(self, model: str) -> Path:
        return self.league.store.run_dir / "models" / f"{self.league.models[model].hash}.safetensors"
