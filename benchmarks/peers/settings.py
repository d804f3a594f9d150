"""Settings of workers and threads that were tried for each peer on two cores, the best ones first."""

from __future__ import annotations

Settings = dict[str, int]

SETTINGS: dict[str, dict[str, list[Settings]]] = {
    # threads: of an update; vectorized: Gymnasium's own CartPole for a whole batch
    "loop": {
        "connect4": [
            {"envs": envs, "threads": threads, "compile": 0, "vectorized": 0}
            for envs, threads in ((256, 2), (64, 2), (128, 2), (128, 1))
        ],
        "cartpole": [
            {"envs": 64, "threads": threads, "compile": compiled, "vectorized": vectorized}
            for threads, compiled, vectorized in ((2, 0, 1), (1, 1, 1), (1, 0, 1), (2, 0, 0), (1, 0, 0))
        ],
    },
    # splits 2: one half of a worker's environments steps while the policy decides for the other;
    # serial: all in one process; batched: a worker's environments share one request for actions
    "sample_factory": {
        workload: [
            {"envs": envs, "workers": workers, "splits": splits, "serial": serial, "batched": batched}
            for envs, workers, splits, serial, batched in tried
        ]
        for workload, tried in {
            "connect4": ((256, 2, 2, 0, 1), (128, 2, 2, 0, 1), (128, 2, 2, 0, 0), (64, 2, 2, 0, 0), (128, 1, 1, 1, 1)),
            "cartpole": ((64, 1, 2, 0, 1), (64, 2, 2, 0, 1), (64, 1, 1, 1, 1), (64, 2, 2, 0, 0), (64, 1, 1, 1, 0)),
        }.items()
    },
    # workers 0: serial; batches 2: one half of the environments steps while the policy decides for the other
    "pufferlib": {
        workload: [
            {"envs": envs, "threads": threads, "workers": workers, "batches": batches}
            for envs, threads, workers, batches in tried
        ]
        for workload, tried in {
            "connect4": (
                (128, 2, 0, 1),
                (128, 1, 0, 1),
                (256, 1, 0, 1),
                (128, 1, 2, 1),
                (128, 1, 2, 2),
                (256, 1, 2, 2),
            ),
            "cartpole": ((64, 2, 0, 1), (64, 1, 0, 1), (64, 1, 2, 1), (64, 1, 2, 2)),
        }.items()
    },
    # processes 1: SubprocVecEnv, a process per environment
    "sb3": {
        workload: [{"envs": envs, "threads": threads, "processes": processes} for envs, threads, processes in tried]
        for workload, tried in {
            "connect4": ((256, 2, 0), (128, 2, 0), (256, 1, 0), (128, 1, 0), (64, 1, 0), (16, 1, 1)),
            "cartpole": ((64, 2, 0), (64, 1, 0), (64, 1, 1)),
        }.items()
    },
    # workers: sampler processes; matches: of each
    "ludus": {
        "connect4": [
            {"workers": workers, "matches": matches} for workers, matches in ((2, 256), (2, 128), (2, 64), (1, 128))
        ],
        "cartpole": [{"workers": 1, "matches": 64}, {"workers": 2, "matches": 32}],
    },
}


def best(peer: str, workload: str) -> list[Settings]:
    """Return the best settings: of a peer that can step single environments or a vectorised one, those of both."""
    found: dict[int, Settings] = {}
    for settings in SETTINGS[peer][workload]:
        found.setdefault(settings.get("vectorized", 0), settings)
    return list(found.values())
