"""Write metrics as TensorBoard scalars."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from ludus.metrics import Metric
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from ludus_tensorboard.config import TensorBoardConfig


class TensorBoardSink:
    """Writes one event file per coordinator process.

    The EventFileWriter of the tensorboard package imports TensorFlow if it is installed, and writes from a second
    thread; a few records per second need neither.

    Args:
        config: Options.
        run_dir: The run folder.
    """

    def __init__(self, config: TensorBoardConfig, *, run_dir: Path | str) -> None:
        directory = Path(run_dir) / config.directory
        directory.mkdir(parents=True, exist_ok=True)
        started = time.time_ns()
        # TensorBoard reads the files of a folder in the order of their names.
        name = f"events.out.tfevents.{started // 10**9:010d}.{started % 10**9:09d}.{socket.gethostname()}.{os.getpid()}"
        self._records = RecordWriter((directory / name).open("wb"))
        self._has_session = False
        self._add(Event(file_version="brain.Event:2"))

    def write(self, metrics: Sequence[Metric]) -> None:
        """Add scalars at the step `decisions`, and flush."""
        for decisions, group in groupby(metrics, key=attrgetter("decisions")):
            if not self._has_session:  # hides the steps of an earlier session after its last checkpoint
                self._add(Event(step=decisions, session_log=SessionLog(status=SessionLog.START)))
                self._has_session = True
            present = [metric for metric in group if not math.isnan(metric.value)]
            values = [Summary.Value(tag=metric.name, simple_value=metric.value) for metric in present]
            self._add(Event(step=decisions, summary=Summary(value=values)))
        self._records.flush()

    def close(self) -> None:
        """Flush and close the event file; closing twice is allowed."""
        self._records.close()

    def _add(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())
