"""The common part of Penstock's own streaming sources: they yield blocks.

A reader takes all available blocks up to its `latestOffset`, which limits the size of a batch.
"""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from penstock.spark.cells import BLOCKS


class BlockSource(DataSource):
    """A format of blocks."""

    format: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return cls.format

    def schema(self) -> str:
        """Blocks."""
        return BLOCKS


class BlockReader(DataSourceStreamReader):
    """Reads up to the offset that it computes itself."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Read all available blocks; `latestOffset` limits the size."""
        return ReadAllAvailable()
