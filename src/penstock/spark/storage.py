"""Files where Spark writes: a directory of any file system that Hadoop knows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from penstock.errors import DataError
from penstock.spark.failure import cause, essential


class Directory:
    """A directory; names in it are relative and may have slashes."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._path_of = jvm.org.apache.hadoop.fs.Path
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        with _explained(path):
            found = self._path_of(path)
            self._fs = found.getFileSystem(conf)
            if self._fs.getUri().getScheme() == "file":
                # a file system that writes no checksum files
                local = jvm.org.apache.hadoop.fs.RawLocalFileSystem()
                local.initialize(self._fs.getUri(), conf)
                self._fs = local
                found = self._path_of("file://" + os.path.abspath(found.toUri().getPath()))
            self.path = str(self._fs.makeQualified(found).toString())

    def make(self) -> None:
        """Have the directory."""
        with _explained(self.path):
            self._make(self._path(""))

    def _make(self, path: Any) -> None:
        if not self._fs.mkdirs(path):
            raise DataError(f"cannot create {path.toString()}", code="PS-SINK-003")

    def at(self, name: str) -> str:
        """The full path of something in the directory."""
        return f"{self.path}/{name}"

    def _path(self, name: str) -> Any:
        return self._path_of(self.path, name) if name else self._path_of(self.path)

    def sizes(self, name: str = "") -> dict[str, int]:
        """The contents of a directory: sizes of files by name, -1 for directories."""
        with _explained(self.at(name)):
            path = self._path(name)
            found = self._fs.listStatus(path) if self._fs.exists(path) else ()
            return {
                str(f.getPath().getName()): -1 if f.isDirectory() else int(f.getLen())
                for f in found
            }

    def exists(self, name: str) -> bool:
        """Whether a path exists."""
        with _explained(self.at(name)):
            return bool(self._fs.exists(self._path(name)))

    def delete(self, name: str) -> None:
        """Remove a file, or a directory with its contents, if it exists."""
        with _explained(self.at(name)):
            self._fs.delete(self._path(name), True)

    def rename(self, old: str, new: str) -> None:
        """Move a file to a name that is free."""
        with _explained(self.at(new)):
            if not self._fs.rename(self._path(old), self._path(new)):
                raise DataError(f"cannot create {self.at(new)}", code="PS-SINK-003")

    def read(self, name: str) -> bytes:
        """The contents of a file."""
        with _explained(self.at(name)):
            stream = self._fs.open(self._path(name))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically."""
        with _explained(self.at(name)):
            self._make(self._path(name).getParent())
            stream = self._fs.create(self._path(name + ".new"), True)
            try:
                stream.write(bytearray(data))
            finally:
                stream.close()
        self.rename(name + ".new", name)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Translate errors of the file system."""
    try:
        yield
    except Py4JError as error:
        text = str(getattr(error, "java_exception", None) or error)
        raise DataError(
            f"cannot use {path}: {cause(essential(text))}",
            code="PS-SINK-003",
            remedy="name a directory that can be written",
        ) from None
