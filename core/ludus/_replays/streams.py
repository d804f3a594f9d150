"""Streams: the recorded frames of matches that cannot be played again.

The frames of a match are lines of JSON, compressed by zlib. A line is ``[tick, clock, frame]``: the tick of the match,
the ticks of the game since its start, and a text, a scene, or null where the frame is that of the line before. Images
are not recorded.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import cattrs
import numpy as np
from attrs import frozen

from ludus._replays.frames import MAX_FRAME_BYTES, decode_frame
from ludus.environment import EnvironmentSpec, Seat
from ludus.errors import ContractError, ReplayError
from ludus.rendering import Frame

MAX_STREAM_BYTES = 8 * 2**20  #: Compressed frames of a match.
MAX_TEXT_BYTES = 64 * 2**20  #: The same, not compressed.
MAX_FRAMES = 2**17  #: Frames of a match.

_MAX_CLOCK = 2**53


# -- blocks ----------------------------------------------------------------------------------------------------------


def _exactly(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


def _make_converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(str, lambda value, _: _exactly(value, str))
    converter.register_structure_hook(int, lambda value, _: _exactly(value, int))
    return converter


CONVERTER = _make_converter()  #: Of the metadata of blocks.


@frozen(kw_only=True)
class StreamedGame:
    """What a block holds of its game, so that streams can be shown without it.

    Attributes:
        name: Name of the environment.
        seats: All seats of a match, in their order.
        turn: `EnvironmentSpec.turn`.
        tick_s: `EnvironmentSpec.tick_s`.
    """

    name: str
    seats: tuple[Seat, ...]
    turn: str
    tick_s: float | None


@frozen(eq=False, kw_only=True)
class BlockStreams:
    """What a block holds of matches that cannot be played again.

    Attributes:
        game: The game.
        sizes: ``[n] int64``, size of the compressed frames of each match; 0: it has none.
        frames: ``[s] uint8``, the compressed frames of all matches, one after the other.
        acted: ``[d, 2] int32`` by role: tick and index of the seat of every decision.
    """

    game: StreamedGame
    sizes: np.ndarray
    frames: np.ndarray
    acted: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, spec: EnvironmentSpec, frames: Sequence[bytes], acted: Mapping[str, np.ndarray]) -> BlockStreams:
        """Return the streams of matches, from their compressed frames."""
        return cls(
            game=StreamedGame(name=spec.name, seats=spec.seats, turn=spec.turn, tick_s=spec.tick_s),
            sizes=np.array([len(data) for data in frames], np.int64),
            frames=np.frombuffer(b"".join(frames), np.uint8),
            acted=acted,
        )


_PREFIX = "stream/"
_ACTED = "acted/"


def stream_arrays(streams: BlockStreams) -> dict[str, np.ndarray]:
    """Return the arrays of streams by their names in a block."""
    arrays = {"sizes": streams.sizes, "frames": streams.frames}
    arrays |= {f"{_ACTED}{role}": acted for role, acted in streams.acted.items()}
    return {f"{_PREFIX}{name}": array for name, array in arrays.items()}


def stream_meta(streams: BlockStreams) -> dict[str, Any]:
    """Return the JSON values of streams in the metadata of a block."""
    values: dict[str, Any] = CONVERTER.unstructure(streams.game)
    return values


def split_arrays(arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the arrays of a block that belong to its streams, by their names in `stream_arrays`, and the others."""
    own = {name: array for name, array in arrays.items() if name.startswith(_PREFIX)}
    return own, {name: array for name, array in arrays.items() if name not in own}


def parse_streams(arrays: Mapping[str, np.ndarray], meta: Any) -> BlockStreams | None:
    """Return the streams of a block; None if it has none.

    Args:
        arrays: The first result of `split_arrays`.
        meta: See `stream_meta`; None without streams.

    Raises:
        ReplayError: They are malformed.
    """
    if meta is None and not arrays:
        return None
    named = {name.removeprefix(_PREFIX): array for name, array in arrays.items()}
    dtypes = {"sizes": np.int64, "frames": np.uint8}
    wrong = [name for name, array in named.items() if array.dtype != dtypes.get(name, np.int32)]
    if wrong or not dtypes.keys() <= named.keys():
        raise ReplayError("its streams lack arrays, or have others than expected")
    acted = {name.removeprefix(_ACTED): array for name, array in named.items() if name not in dtypes}
    return BlockStreams(game=_parse_game(meta), sizes=named["sizes"], frames=named["frames"], acted=acted)


def _parse_game(meta: Any) -> StreamedGame:
    try:
        game = CONVERTER.structure(meta, StreamedGame)
        if game.tick_s is not None and not 0 < game.tick_s < np.inf:
            raise ValueError(f"tick_s is {game.tick_s}")
    except Exception as error:  # cattrs raises errors of several kinds
        raise ReplayError(f"the metadata of its streams are malformed ({type(error).__name__})") from error
    return game


def check_streams(streams: BlockStreams, ticks: np.ndarray, decisions: Mapping[str, np.ndarray]) -> None:
    """Check that streams fit their block.

    Args:
        streams: The streams.
        ticks: ``[n]``, length of the matches.
        decisions: ``[n]`` by role: numbers of decisions of the matches.

    Raises:
        ReplayError: They do not.
    """
    sizes = streams.sizes
    if sizes.shape != ticks.shape or sizes.min() < 0 or sizes.max() > MAX_STREAM_BYTES:
        raise ReplayError(f"its streams have wrong sizes; expected at most {MAX_STREAM_BYTES} bytes for each match")
    if streams.frames.shape != (sizes.sum(),):
        raise ReplayError("the sizes of its streams do not fit their frames")
    if streams.acted.keys() != decisions.keys():
        raise ReplayError("its streams have other roles than its actions")
    for role, acted in streams.acted.items():
        num_seats = [seat.role for seat in streams.game.seats].count(role)
        lengths = np.repeat(ticks, decisions[role])
        limits = np.stack([lengths, np.full_like(lengths, num_seats)], axis=1)
        if acted.shape != limits.shape or np.any((acted < 0) | (acted >= limits)):
            raise ReplayError(f"its streams have decisions of role {role} on ticks or of seats that do not exist")


# -- matches ---------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class StreamFrame:
    """A frame of a stream.

    Attributes:
        tick: Tick of the match.
        clock: Ticks of the game since the start of the match.
        frame: Text, or a scene.
    """

    tick: int
    clock: int
    frame: Frame


@frozen(eq=False, kw_only=True)
class MatchStream:
    """What was recorded of a match that cannot be played again.

    Attributes:
        game: Its game.
        data: Compressed frames; empty: there are none.
        acted: ``[d, 2] int32`` by role: tick and index of the seat of every decision, in the order of the actions.
    """

    game: StreamedGame
    data: bytes
    acted: Mapping[str, np.ndarray]

    def frames(self, ticks: int) -> list[StreamFrame]:
        """Return the frames of the match; ticks without a line have the frame before.

        Args:
            ticks: Length of the match.

        Raises:
            ReplayError: They are malformed.
        """
        if not self.data:
            return []
        found: list[StreamFrame] = []
        try:
            for line in _unpack(self.data).splitlines():
                found += _parse_line(line, found[-1] if found else None)
        except (zlib.error, ContractError, TypeError, ValueError, RecursionError) as error:
            raise ReplayError(f"the frames are malformed ({error})") from error
        if found and found[-1].tick > ticks:
            raise ReplayError("the frames are malformed (a frame follows the end of the match)")
        return found


def split_streams(streams: BlockStreams | None, decisions: np.ndarray) -> list[MatchStream]:
    """Return the stream of every match; empty if the block has no streams.

    Args:
        streams: The streams of a block.
        decisions: ``[n, roles]``: numbers of decisions of the matches; roles in alphabetical order.
    """
    if streams is None:
        return []
    stops = np.cumsum(decisions, axis=0, dtype=np.int64)
    frames = np.split(streams.frames, np.cumsum(streams.sizes)[:-1])
    acted = [np.split(streams.acted[role], stops[:-1, i]) for i, role in enumerate(sorted(streams.acted))]
    return [
        MatchStream(
            game=streams.game,
            data=data.tobytes(),
            acted=dict(zip(sorted(streams.acted), own, strict=True)),
        )
        for data, own in zip(frames, zip(*acted, strict=True), strict=True)
    ]


def _unpack(data: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(data, MAX_TEXT_BYTES + 1)
    if len(text) > MAX_TEXT_BYTES or not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"expected at most {MAX_TEXT_BYTES} bytes and nothing behind them")
    if text.count(b"\n") > MAX_FRAMES:
        raise ValueError(f"expected at most {MAX_FRAMES} frames")
    return text


def _parse_line(line: bytes, last: StreamFrame | None) -> list[StreamFrame]:
    """Return the frame of a line; nothing if the match has no frame so far."""
    if len(line) > MAX_FRAME_BYTES:
        raise ValueError(f"expected at most {MAX_FRAME_BYTES} bytes in a frame")
    tick, clock, values = json.loads(line)
    after = (-1, 0) if last is None else (last.tick, last.clock)
    if type(tick) is not int or type(clock) is not int or not (after[0] < tick and after[1] <= clock < _MAX_CLOCK):
        raise ValueError("expected ticks that increase")
    if values is None:
        return [] if last is None else [StreamFrame(tick, clock, last.frame)]
    return [StreamFrame(tick, clock, decode_frame(values))]
