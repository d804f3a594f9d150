"""A worker process: ``python -m ludus_copies SOCKET MEMORY``, started by `ludus_copies.workers`."""

import sys
from contextlib import suppress

from ludus.signals import ignore_interrupts, interrupt_on_termination

from ludus_copies.workers import serve

if __name__ == "__main__":
    ignore_interrupts()  # the parent closes the socket
    with suppress(KeyboardInterrupt), interrupt_on_termination():  # a game that hangs is closed, which ends its engine
        serve(descriptor=int(sys.argv[1]), memory=int(sys.argv[2]))
