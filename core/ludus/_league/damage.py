"""Containment of damaged files: what a learner resumes from instead, and the quarantine of frozen models.

A file is damaged if it is missing, cannot be read, or does not match its hash. A quarantined model stays in the log and
in the lineage, but leaves its pools and is not chosen any more. The store keeps this state.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from ludus._league.league import League
from ludus._store.model_files import check_checkpoint, check_model, set_aside
from ludus._store.quarantine import QuarantineRecord
from ludus.errors import DamagedFileError, ModelError
from ludus.matchmaker import PlayerView, PoolChange
from ludus.records import ModelRecord


def damage_of(check: Callable[..., object], *arguments: object) -> str:
    """Return how a file is damaged, without the advice of the error; empty if a check of it passes."""
    try:
        check(*arguments)
    except ModelError as error:
        return str(error).rpartition("; ")[0] or str(error)
    return ""


def _quarantine(league: League, model: str, damage: str) -> None:
    pools = tuple(name for name, members in league.pools.items() if model in members)
    league.apply(PoolChange(pool=pool, model=model, enters=False) for pool in pools)
    league.roster.quarantine(model)
    league.store.quarantine.add(model, QuarantineRecord(damage=damage, pools=pools))


def readmit(league: League, model: str) -> tuple[str, ...]:
    """End the quarantine of a model whose file was restored, and return the pools, to which it is added again."""
    record = league.store.quarantine.records()[model]
    league.store.quarantine.remove(model)
    league.roster.readmit(model)
    league.apply(PoolChange(pool=pool, model=model, enters=True) for pool in record.pools)
    return record.pools


@define
class DamageContainment:
    """Replaces damaged checkpoints and quarantines damaged models; the caller commits.

    Args:
        league: The league, open for writing.
        print_line: Prints one line for the user.
    """

    league: League
    print_line: Callable[[str], None]

    def check_checkpoints(self, player: str) -> None:
        """Set the damaged checkpoints of a player aside, up to the newest sound one, and print what is lost."""
        store, damage = self.league.store, ""
        for checkpoint in store.checkpoints.kept(player):
            try:
                check_checkpoint(store.run_dir, checkpoint.path, checkpoint.hash)
                break
            except DamagedFileError as error:
                set_aside(store.run_dir, store.run_dir / checkpoint.path)
                damage = damage or _without_advice(error)
            except ModelError as error:  # not a path of a checkpoint
                damage = damage or str(error)
            store.checkpoints.drop(checkpoint)
        if damage:
            self.print_line(f"player {player!r}: {damage}; {self._loss(player)}")

    def _loss(self, player: str) -> str:
        """Return what a player resumes from, and how many decisions are lost."""
        decisions = self.league.players[player].decisions
        if kept := self.league.store.checkpoints.kept(player):
            lost = max(decisions - kept[0].decisions, 0)
            return f"resumed from {kept[0].path}, {lost:,} decisions are lost"
        if model := self.newest_model(player):
            lost = max(decisions - model.decisions, 0)
            return f"resumed from {model.participant}, {lost:,} decisions and the state of the trainer are lost"
        return f"no other checkpoint and no model is left, {decisions:,} decisions are lost"

    def newest_model(self, player: str) -> ModelRecord | None:
        """Return the newest sound model of a player's generation; newer ones are quarantined. None if none is left."""
        league = self.league
        view = league.players[player]
        for model in _of_generation(league, view):
            if not (damage := damage_of(check_model, league.store.run_dir / "models", model.hash)):
                return model
            self.quarantine(model.hash, damage)
        return None

    def sound_init(self, first: ModelRecord) -> str:
        """Return the hash of the model that a generation starts from; empty if it is damaged, which quarantines it.

        Args:
            first: The model whose freezing began the generation.
        """
        init = str(first.manifest["init"])
        damage = init and damage_of(check_model, self.league.store.run_dir / "models", init)
        if damage:
            self.quarantine(init, damage)
        return "" if damage else init

    def quarantine(self, hash: str, damage: str) -> list[str]:
        """Set a damaged model file aside, take its models out of the league, print a line, and return their names.

        Args:
            hash: Hash of the models.
            damage: How the file is damaged.
        """
        league = self.league
        names = [
            name
            for name, model in league.models.items()
            if model.hash == hash and name not in league.roster.quarantined
        ]
        for name in names:
            _quarantine(league, name, damage)
        if names:
            set_aside(league.store.run_dir, league.store.run_dir / "models" / f"{hash}.safetensors")
            self.print_line(
                f"{', '.join(names)}: {damage}; quarantined: out of all pools and choices — "
                "`ludus league verify --repair` restores what can be restored"
            )
        return names


def _of_generation(league: League, view: PlayerView) -> list[ModelRecord]:
    """Return the models of a player's present generation, newest first."""
    models = [league.models[name] for name in reversed(view.models)]
    return [model for model in models if model.number > view.generation_starts[-1]]


def _without_advice(error: ModelError) -> str:
    return str(error).rpartition("; ")[0]
