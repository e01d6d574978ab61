"""Sinks that Spark writes from the DataFrames of its batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.files.sinks import Sink
from penstock.session.file_sinks import own_options
from penstock.session.gate import Gate
from penstock.session.leaving import LeavingQueries
from penstock.session.query_book import QueryBook
from penstock.session.sinks import is_whole
from penstock.session.vault import Vault
from penstock.spark.change_frames import QueryNames
from penstock.spark.job import SparkJob
from penstock.spark.sinks import FunctionSink, SinkSpec, SparkSinks
from penstock.sql.statements import CreateSink


class SparkSinkOpener:
    """Opens sinks on Spark."""

    def __init__(
        self,
        queries: QueryBook,
        leaving: LeavingQueries,
        sinks: SparkSinks,
        vault: Vault,
        gate: Gate,
        job: SparkJob,
    ) -> None:
        self.restoring = False  # while the sinks of a former process are restored
        self._queries, self._leaving, self._sinks = queries, leaving, sinks
        self._vault, self._gate, self._job = vault, gate, job
        self._functions = 0  # functions of foreach_batch(); a new process must give them again

    def open(self, create: CreateSink, again: bool = False) -> Sink:
        """Open a sink of one query, or (`whole_template`) of all queries that share its plan.

        Its directory tells whether it has been open before.
        """
        options, whole = own_options(create, self._vault), is_whole(create)
        return self._add(create.name, create.view, create.format, options, whole)

    def _add(
        self, name: str, view: str, form: str | FunctionSink, options: dict[str, str], whole: bool
    ) -> Sink:
        info = self._queries.info(view)
        template = self._queries.template(info)
        spec = SinkSpec(
            name, info.name, info.template, None if whole else info.qid, template.plan.schema,
            template.unit_time, form, options, lambda: self._names(info.template),
            template.emission.per_row,
        )  # fmt: skip
        return self._sinks.add(spec, later=self.restoring)

    def remove(self, name: str) -> None:
        """Remove a dropped sink; if its failure had stopped the job, the job continues."""
        self._sinks.close(name)
        self._job.forgive()

    def foreach_batch(self, name: str, function: Any, whole: bool) -> None:
        """Call a function with a DataFrame of the changes of every batch."""
        with self._gate.open(), self._gate.look():
            label = f"{name}, function {self._functions + 1}"
            self._add(label, name, FunctionSink(function), {}, whole)
            self._functions += 1

    def _names(self, template: int) -> QueryNames:
        """The names of a template's queries, including queries that are leaving."""
        with self._gate.lock:
            some = [(gone.readers.group, gone.places) for gone in self._leaving.of(template)]
            for group in self._queries.registry.of_template(template):
                some.append((group, group.running(group.there())))
            qids = np.concatenate([group.qids[places] for group, places in some])
            names = [group.names.arrow().take(pa.array(places)) for group, places in some]
            return QueryNames.of(qids, pa.concat_arrays(names))
