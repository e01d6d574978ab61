"""Sinks of the Spark job: deliver the changes of queries, batch by batch (DESIGN §5.6).

The frame of a batch is computed once and kept until all sinks have read it. A sink without
changes in a batch costs nothing. File sinks write every batch once (`batch_files`), the others at
least once (`write_formats`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import DataError, NameError_, PenstockError
from penstock.files.sinks import open_sink
from penstock.schema import Schema
from penstock.shards.wire import Result
from penstock.spark import batch_files as files
from penstock.spark.change_frames import (
    Decode,
    QueryNames,
    change_frame,
    local_frame,
    spark_schema,
)
from penstock.spark.config import log_remedy
from penstock.spark.failure import cause, essential
from penstock.spark.write_formats import (
    ConsoleWriter,
    FormatWriter,
    FunctionSink,
    check_format,
    open_kafka,
)

__all__ = ["FunctionSink", "SinkSpec", "SparkSinks"]

_FEW_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """A sink for a query, or (`qid` None) for all queries of a template.

    For a template, each batch calls `names` for the queries' names by number.
    """

    name: str
    query: str
    template: int
    qid: int | None
    schema: Schema
    unit_time: bool
    format: str | FunctionSink
    options: Mapping[str, str] = field(default_factory=dict)
    names: Callable[[], QueryNames] = QueryNames.none
    per_row: bool = False  # `_query` is the list of the queries that a row belongs to

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its changes."""
        return tuple(spark_schema(self.schema, self.unit_time, self.per_row).names)

    def decode(self, batch: int) -> Decode:
        """The function that turns blocks of a batch into rows."""
        names = None
        if self.qid is None:
            names = self.names()
        return Decode(self.schema, self.unit_time, batch, self.query, self.qid, names, self.per_row)


class _Writer(Protocol):
    def write(self, frame: DataFrame, batch: int, weight: int) -> None:
        """Write the changes of a batch, of about `weight` bytes."""


@dataclass(frozen=True, slots=True)
class OpenSink:
    """A sink as the session sees it; the job, not the session, writes its changes."""

    sinks: SparkSinks
    name: str

    def write(self, changes: pa.Table, batch: int) -> None:
        """Do nothing: the job has written the changes."""

    def close(self) -> None:
        """Deliver nothing more."""
        self.sinks.close(self.name)


@dataclass(slots=True)
class _Held:
    """A sink of the job; its writer is None until a sink that is opened later is written."""

    spec: SinkSpec
    writer: _Writer | None


class SparkSinks:
    """The sinks of a job; `checkpoint` is the id that marks their batches."""

    def __init__(self, spark: SparkSession, checkpoint: str = "") -> None:
        self.checkpoint = checkpoint
        self._spark = spark
        self._lock = threading.Lock()
        self._open: dict[str, _Held] = {}

    def add(self, spec: SinkSpec, later: bool = False) -> OpenSink:
        """Open a sink for the batches that run from now on.

        `mode` decides about existing files when the sink is new. With `later`, the sink is one of
        the checkpoint: it continues, and opens with its first batch. So a checkpoint opens, and the
        sink can be dropped, even while the sink cannot be written.
        """
        if spec.name in self._open:
            raise NameError_(
                f"there is already a sink called {spec.name}",
                code="PS-NAME-008",
                remedy="choose another name, or drop it first",
            )
        held = _Held(spec, None if later else self._writer(spec, new=True))
        with self._lock:
            self._open[spec.name] = held
        return OpenSink(self, spec.name)

    def close(self, name: str) -> None:
        """Deliver nothing more to a sink."""
        with self._lock:
            self._open.pop(name, None)

    def _writer(self, spec: SinkSpec, new: bool = False) -> _Writer:
        if isinstance(spec.format, FunctionSink):
            return spec.format
        kind = spec.format.lower()
        given = dict(spec.options)
        if kind == "console":
            return ConsoleWriter(open_sink(kind, given, spec.name), spec.qid is not None)
        if kind in files.FORMATS:
            given = {key.lower(): value for key, value in given.items()}
            return self._files(kind, given, spec.name, new)
        if kind == "kafka":
            return open_kafka(self._spark, given, spec.name, spec.columns)
        check_format(self._spark, spec.format)
        return FormatWriter(spec.format, given.pop("mode", "append"), given)

    def _files(self, kind: str, given: dict[str, str], name: str, new: bool) -> files.BatchFiles:
        path, mode = given.pop("path", ""), given.pop("mode", "append").lower()
        wrong, remedy = "", ""
        if given:
            wrong = f"unknown option {sorted(given)[0]!r} for sink {name}"
            remedy = f"the options of {kind} are mode and path"
        elif not path:
            wrong, remedy = f"sink {name} needs a path", "add OPTIONS (path 'out')"
        elif mode not in ("append", "overwrite", "error"):
            wrong = f"sink {name} has no mode {mode!r}"
            remedy = "use append, overwrite or error"
        if wrong:
            raise DataError(wrong, code="PS-SINK-002", remedy=remedy)
        writer = files.Writer(self.checkpoint, name)
        return files.BatchFiles(self._spark, writer, kind, path, mode, new)

    # ---- a batch ---------------------------------------------------------------------
    @property
    def needs_frame(self) -> bool:
        """Whether any sink is open."""
        return bool(self._open)

    def __call__(self, frame: DataFrame, batch: int, results: Sequence[Result]) -> None:
        """Deliver a batch, given as a persisted frame (`cells.RESULTS`) and as results."""
        blocks: dict[int, list[Result]] = {}
        for result in results:
            if result.kind == "changes":
                blocks.setdefault(result.template, []).append(result)
        with self._lock:
            wanted = [held for held in self._open.values() if held.spec.template in blocks]
        for held in wanted:
            spec = held.spec
            try:
                held.writer = held.writer or self._writer(spec)
                _write(spec, held.writer, frame, batch, blocks[spec.template])
            except PenstockError as error:
                raise _failed(spec, error) from error
            except (PySparkException, Py4JError) as error:
                raise _failed(spec, essential(str(error))) from None


def _write(
    spec: SinkSpec, writer: _Writer, frame: DataFrame, batch: int, blocks: list[Result]
) -> None:
    """Write the changes of a batch to a sink, if there are any."""
    weight = sum(len(block.data) for block in blocks)
    decode = spec.decode(batch)
    changes: DataFrame | None
    if weight <= _FEW_BYTES:
        changes = local_frame(frame.sparkSession, blocks, decode)
    else:
        changes = change_frame(frame, spec.template, decode)
    if changes is not None:
        writer.write(changes, batch, weight)


def _failed(spec: SinkSpec, error: PenstockError) -> PenstockError:
    """The error of a sink, with its name and how the job goes on."""
    of_spark = error.code.startswith("PS-SPARK")
    remedy = f"remove the cause and call start(), which writes the batch; or DROP SINK {spec.name}"
    if isinstance(spec.format, FunctionSink):
        remedy = error.remedy
    return PenstockError(
        f"sink {spec.name} of {spec.query}: {cause(error)}",
        code="PS-SINK-004" if of_spark else error.code,
        remedy=remedy + log_remedy() if of_spark else remedy,
    )
