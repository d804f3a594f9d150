"""The two fuzzers: hypothesis draws fields and frames; atheris mutates bytes, guided by the coverage of the code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed as with_seed, settings, strategies as st
from ludus.wire import Message
from ludus_local import codec

from fuzz.inputs import Input, pack, unpack
from fuzz.mutation import Mutator
from fuzz.strategies import inputs
from fuzz.target import Target
from fuzz.values import Values

_PER_EXAMPLE = 64  # inputs that hypothesis draws at a time; it spends half a millisecond on every example
_MAX_LENGTH = 64 * 1024  # bytes of an input of atheris
_LONGEST_S = 60  # of one input, after which atheris ends the process


def run_hypothesis(target: Target, messages: Sequence[Message], values: Values, *, count: int, seed: int) -> None:
    """Deliver inputs that hypothesis draws.

    Args:
        target: Gets the inputs.
        messages: Valid messages.
        values: Values for their fields.
        count: Number of inputs.
        seed: Seed of the first round; hypothesis ends a round when it has drawn everything that it can.
    """
    many = st.lists(inputs(target.kind, messages, values), min_size=_PER_EXAMPLE, max_size=_PER_EXAMPLE)
    while target.count < count:
        examples = -(-(count - target.count) // _PER_EXAMPLE)

        @with_seed(seed)
        @settings(
            max_examples=examples,
            phases=[Phase.generate],
            database=None,
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
        )
        @given(many)
        def deliver(drawn: list[Input]) -> None:
            for one in drawn[: max(0, count - target.count)]:
                target.run(one)

        deliver()
        seed += 1


def run_atheris(
    target: Target,
    messages: Sequence[Message],
    values: Values,
    *,
    count: int,
    seed: int,
    folder: Path,
    end: Callable[[], None],
) -> None:
    """Deliver inputs that atheris mutates, and end this process.

    Args:
        target: Gets the inputs.
        messages: Valid messages, from which it starts.
        values: Values for fields of the header.
        count: Number of inputs.
        seed: Seed.
        folder: Folder for its corpus and the input that ends the process, if one does.
        end: Called after the last input.
    """
    import atheris  # type: ignore[import-untyped]  # noqa: PLC0415 - there is none for some versions of Python

    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    frames = [tuple(bytes(frame) for frame in codec.encode(message)) for message in messages]
    valid = [pack(Input(8 * route, live=True, frames=one)) for route in range(len(target.routes)) for one in frames]
    for number, data in enumerate(valid):
        (corpus / f"valid-{number}").write_bytes(data)
    mutator = Mutator(values, valid, lambda data, size: bytes(atheris.Mutate(data, size)))  # none before `Setup`

    def deliver(data: bytes) -> None:
        if target.count < count:
            target.run(unpack(data))
        if target.count >= count:
            end()
            sys.stdout.flush()
            os._exit(0)  # the fuzzer would go on, and libFuzzer prints its own summary at exit

    arguments = ["fuzz", f"-seed={seed + 1}", f"-max_len={_MAX_LENGTH}", f"-timeout={_LONGEST_S}", "-rss_limit_mb=4096"]
    arguments += ["-len_control=0", "-verbosity=0", "-reload=0", f"-artifact_prefix={folder}/ended-by-", str(corpus)]
    atheris.Setup(arguments, deliver, custom_mutator=mutator.__call__)
    atheris.Fuzz()
