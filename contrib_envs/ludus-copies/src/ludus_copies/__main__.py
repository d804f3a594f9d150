"""A worker process: ``python -m ludus_copies SOCKET MEMORY``, started by `ludus_copies.workers`."""

import sys

from ludus.signals import ignore_interrupts

from ludus_copies.workers import serve

if __name__ == "__main__":
    ignore_interrupts()  # the parent closes the socket
    serve(descriptor=int(sys.argv[1]), memory=int(sys.argv[2]))
