"""Train and resume a small run; after every commit, append what is committed to a file.

``python power_loss_run.py FILE.toml RUN MARKS``; `test_power_loss` records the system calls of this process.
"""

import json
import os
import sys
from pathlib import Path

from ludus._config.run_config import load_config
from ludus._plugins.manager import load_plugins
from ludus._run.runner import resume, train
from ludus._store.store import Store
from ludus.matchmaker import PoolChange
from ludus.runs import change_pool

config, run_dir, marks = sys.argv[1:]
handle = os.open(marks, os.O_WRONLY | os.O_CREAT)
commit = Store.commit


def marked_commit(store):
    """Commit, and write the committed state."""
    commit(store)
    state = {
        "matches": store.matches.count(),
        "models": {model.participant: model.hash for model in store.models.records()},
        "checkpoints": {player: saved.version for player, saved in store.checkpoints.latest().items()},
        "pool_changes": len(list(store.pools.records())),
    }
    os.write(handle, json.dumps(state).encode())


def ignore(line):
    """Print nothing."""


Store.commit = marked_commit
plugins = load_plugins()
train(load_config(config, plugins=plugins), plugins=plugins, run_dir=Path(run_dir), print_line=ignore)
change_pool(run_dir, PoolChange(pool="chosen", model="main@1", enters=True))
resume(Path(run_dir), plugins=plugins, print_line=ignore, overrides=("run.decisions=1500",))
