"""Becomes the game, which then cannot outlive the process that started it.

Arguments: the id of the process that started this one, then the program and its arguments. The kernel kills the game
when that process ends, in whatever way. The game gets a process group of its own: Ctrl-C in a terminal is meant for its
parent, which then ends it.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Replace this process by the program."""
    parent, program = int(sys.argv[1]), sys.argv[2]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        sys.exit(1)  # the parent ended before the line above
    os.setpgid(0, 0)
    os.execv(program, sys.argv[2:])  # noqa: S606 - no shell


if __name__ == "__main__":
    main()
