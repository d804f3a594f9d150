"""Starts an engine that cannot outlive the process that asked for it, and waits for its end.

The engine ignores SIGTERM, and runs on at full load when its parent is gone. So the kernel sends SIGKILL to this
process when the thread that started it ends, which includes the end of the whole process, and to the engine when this
process ends. Both have a process group of their own, since Ctrl-C in a terminal is for the parent only, and another
current folder, since the engine creates files there.

ViZDoom's library fails with a segmentation fault if the engine ends while it starts. Then this process does not end: it
reports the end by a file, and sleeps until it is killed.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
#: The engine creates this file when it is ready; the library copes with its end from then on.
READY = "/dev/shm/ViZDoomSM"  # noqa: S108 - ViZDoom's own choice
ENDED = ".ended"


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        sys.exit(1)  # it ended before the line above


def argument(name: str) -> str:
    """Return the argument behind a name."""
    return sys.argv[sys.argv.index(name) + 1]


def main() -> None:
    """Start the engine that the environment names, with the arguments of this process."""
    die_with(int(os.environ["LUDUS_VIZDOOM_PARENT"]))
    os.setpgid(0, 0)
    os.chdir(os.environ["LUDUS_VIZDOOM_FOLDER"])
    mark = argument("-mark")
    log = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    this = os.getpid()
    engine = os.fork()
    if engine == 0:
        die_with(this)
        program = os.environ["LUDUS_VIZDOOM_ENGINE"]
        os.execv(program, [program, *sys.argv[1:]])  # noqa: S606 - no shell
    os.waitpid(engine, 0)
    if not os.path.exists(READY + argument("+viz_instance_id")):  # noqa: PTH110 - pathlib is slow to import
        os.close(os.open(mark + ENDED, os.O_WRONLY | os.O_CREAT, 0o600))
        while True:
            signal.pause()


if __name__ == "__main__":
    main()
