"""Asking shards: an entry of the log asks, and the batch that holds it brings the answer.

An answer is that at the end of its batch: all changes of the batch are in it, none of a later one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from penstock.errors import QueryFailed
from penstock.queries.registry import QueryInfo, TemplateInfo
from penstock.session.changelog import ChangeBatch
from penstock.shards import wire
from penstock.shards.changes import own_columns, whose


@dataclass(slots=True)
class Question:
    """The answers of queries of one template, in the parts that shards have.

    `opening` is the query whose view may be kept from this answer on.
    """

    template: TemplateInfo
    opening: QueryInfo | None = None
    parts: list[pa.RecordBatch] = field(default_factory=list)
    refusal: str | None = None  # why a shard has none

    def take(self, data: bytes | str) -> None:
        """A part, or why there is none."""
        if isinstance(data, str):
            self.refusal = self.refusal or data
        else:
            self.parts.append(wire.unpack_batch(data))

    def check(self) -> None:
        """Refuse an answer of which a part is missing."""
        if self.refusal is not None:
            raise QueryFailed(self.refusal)

    def rows(self) -> pa.Table:
        """The answer, without the query of each row."""
        schema = self.template.plan.schema.arrow()
        tables = [pa.Table.from_arrays(own_columns(p), schema=schema) for p in self.parts]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def batches(self) -> list[ChangeBatch]:
        """The answers, with the query of each row."""
        schema = self.template.plan.schema.arrow()
        tables = [pa.Table.from_arrays(own_columns(p), schema=schema) for p in self.parts]
        owners = map(whose, self.parts)
        return [
            ChangeBatch(0, who, rows, sets)
            for rows, (who, sets) in zip(tables, owners, strict=True)
        ]
