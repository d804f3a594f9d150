"""Mutations of encoded inputs for atheris: of bytes, of single frames, and of values in the header."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgpack
from attrs import frozen

from fuzz.inputs import Input, pack, unpack
from fuzz.strategies import PREFIX, Change, encode
from fuzz.values import Values

#: Changes bytes to at most so many; of the fuzzer.
Mutate = Callable[[bytes, int], bytes]


@frozen
class Mutator:
    """Mutates inputs so that many of them are still messages.

    Args:
        values: Values for fields of the header.
        valid: Encoded valid inputs; half of the mutations start from one of them.
        mutate: Mutates bytes, guided by coverage.
    """

    values: Values
    valid: Sequence[bytes]
    mutate: Mutate

    def __call__(self, data: bytes, max_size: int, seed: int) -> bytes:
        """Return a mutated input of at most `max_size` bytes."""
        rng = random.Random(seed)
        if rng.random() < 0.5:
            data = rng.choice(self.valid)
        way = rng.random()
        if way < 0.1:
            return self.mutate(data, max_size)
        one = unpack(data)
        frames, route = list(one.frames), rng.randrange(256) if rng.random() < 0.5 else one.route
        if way < 0.4:
            position = rng.randrange(len(frames))
            room = max(1, max_size - len(data))
            frames[position] = self.mutate(frames[position], len(frames[position]) + room)
        else:
            frames[0] = self._change_header(frames[0], rng)
        return pack(Input(route, one.live, tuple(frames)))[:max_size]

    def _change_header(self, header: bytes, rng: random.Random) -> bytes:
        """Replace values in the header, if it is one."""
        try:
            kind, fields = msgpack.unpackb(header[len(PREFIX) :], strict_map_key=False)
            changed = Change(rng, self.values, None).message(fields)
            return encode(kind, changed)[0]
        except (ValueError, TypeError, AttributeError, msgpack.UnpackException, OverflowError):
            return self.mutate(header, len(header) + 64)
