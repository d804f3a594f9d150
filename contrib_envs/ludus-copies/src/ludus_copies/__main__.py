"""A worker process: ``python -m ludus_copies SOCKET MEMORY``, started by `ludus_copies.workers`."""

import signal
import sys

from ludus_copies.workers import serve

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and closes the socket
    serve(descriptor=int(sys.argv[1]), memory=int(sys.argv[2]))
