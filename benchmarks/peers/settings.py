"""Settings of workers and threads for each peer on two cores, the best ones first."""

from __future__ import annotations

Settings = dict[str, int]

SETTINGS: dict[str, dict[str, list[Settings]]] = {
    # threads: threads of an update; vectorized: Gymnasium's vector environment of CartPole
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
    # splits 2: half of the environments of a worker step while the policy evaluates the others;
    # serial: one process; batched: the environments of a worker share one request for actions
    "sample_factory": {
        workload: [
            {"envs": envs, "workers": workers, "splits": splits, "serial": serial, "batched": batched}
            for envs, workers, splits, serial, batched in choices
        ]
        for workload, choices in {
            "connect4": ((256, 2, 2, 0, 1), (128, 2, 2, 0, 1), (128, 2, 2, 0, 0), (64, 2, 2, 0, 0), (128, 1, 1, 1, 1)),
            "cartpole": ((64, 1, 2, 0, 1), (64, 2, 2, 0, 1), (64, 1, 1, 1, 1), (64, 2, 2, 0, 0), (64, 1, 1, 1, 0)),
        }.items()
    },
    # workers 0: serial; batches 2: half of the environments step while the policy evaluates the others
    "pufferlib": {
        workload: [
            {"envs": envs, "threads": threads, "workers": workers, "batches": batches}
            for envs, threads, workers, batches in choices
        ]
        for workload, choices in {
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
    # processes 1: SubprocVecEnv, one process for each environment
    "sb3": {
        workload: [{"envs": envs, "threads": threads, "processes": processes} for envs, threads, processes in choices]
        for workload, choices in {
            "connect4": ((256, 2, 0), (128, 2, 0), (256, 1, 0), (128, 1, 0), (64, 1, 0), (16, 1, 1)),
            "cartpole": ((64, 2, 0), (64, 1, 0), (64, 1, 1)),
        }.items()
    },
    # workers: sampler processes; matches: matches of each sampler
    "ludus": {
        "connect4": [
            {"workers": workers, "matches": matches} for workers, matches in ((2, 256), (2, 128), (2, 64), (1, 128))
        ],
        "cartpole": [{"workers": 1, "matches": 64}, {"workers": 2, "matches": 32}],
    },
}


def best(peer: str, workload: str) -> list[Settings]:
    """Return the best settings, with and without a vector environment if the peer supports both."""
    best_settings: dict[int, Settings] = {}
    for settings in SETTINGS[peer][workload]:
        best_settings.setdefault(settings.get("vectorized", 0), settings)
    return list(best_settings.values())
