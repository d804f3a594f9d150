"""Replaces this process by a game that the kernel kills when its parent ends: ``launch PARENT PROGRAM ARGUMENT…``."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run the program."""
    parent, program, *arguments = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != int(parent):
        sys.exit(1)  # it ended before the line above
    try:
        os.execvp(program, [program, *arguments])  # noqa: S606 - no shell
    except OSError as error:
        sys.exit(f"{program}: {error.strerror}")


if __name__ == "__main__":
    main()
