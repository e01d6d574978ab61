"""Kills processes of a job at a named point, in whichever of them reaches it.

On the PYTHONPATH of a driver this is loaded by it and by all Python processes of its Spark.
PENSTOCK_FAULT is `point:n:counter`: at the n-th time that `point` is reached (counted in the file
`counter` by all processes) something dies: at a worker's point the worker, else the driver, or what
PENSTOCK_VICTIM names (driver, jvm, daemon, all), by the signal PENSTOCK_SIGNAL.
PENSTOCK_LATE names a file: of the processes that Spark starts to ask for state variables, the one
that makes it is later than Spark waits.
Without them nothing is touched.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

POINTS = {  # where: module, class or "", function, when
    "offset": ("penstock.spark.log_source", "LogStream", "latestOffset", "before"),
    "planned": ("penstock.spark.manifest", "Manifests", "propose", "before"),
    "manifest": ("penstock.spark.manifest", "Manifests", "propose", "after"),
    "apply": ("penstock.spark.live_shard", "LiveShard", "apply", "after"),
    "worker": ("penstock.spark.live_shard", "LiveShard", "apply", "after"),
    "stored": ("penstock.spark.shard_store", "ShardStore", "commit", "after"),
    "worker-stored": ("penstock.spark.shard_store", "ShardStore", "commit", "after"),
    "results": ("penstock.spark.sinks", "SparkSinks", "__call__", "before"),
    "staged": ("penstock.spark.batch_files", "BatchFiles", "_move", "before"),
    "moved": ("penstock.spark.batch_files", "BatchFiles", "_finish", "before"),
    "sinks": ("penstock.spark.sinks", "SparkSinks", "__call__", "after"),
    "delivered": ("penstock.session.runners.on_spark", "OnSpark", "_receive", "after"),
    "done": ("penstock.spark.manifest", "Manifests", "finish", "after"),
    "append": ("penstock.shards.session_log", "SessionLog", "_write", "torn"),
    "appended": ("penstock.shards.session_log", "SessionLog", "append", "after"),
    "saving": ("penstock.session.image", "", "dumps", "after"),
}
_ASKING = "transform_with_state_driver_worker"


def _reach(point: str, number: int, counter: str) -> bool:
    """Count; whether this is the time to die."""
    with open(counter, "ab") as file:
        file.write(b".")
        return file.tell() == number


def _die(point: str) -> None:
    victim = os.environ.get("PENSTOCK_VICTIM")
    how = signal.Signals[os.environ.get("PENSTOCK_SIGNAL", "SIGKILL")]
    driver = int(os.environ["PENSTOCK_FAULT_DRIVER"])
    if victim is None and point.startswith("worker"):
        os.kill(os.getpid(), how)
    for pid in _victims(driver, victim or "driver"):
        with suppress(ProcessLookupError):
            os.kill(pid, how)
    if victim in (None, "driver", "all"):
        time.sleep(60)  # Spark ends this process when it finds the driver gone


def _victims(driver: int, victim: str) -> list[int]:
    """The processes of a job that have a name; this one last."""
    if victim == "driver":
        return [driver]
    below = _descendants(driver)
    java = [pid for pid in below if _command(pid)[:1] and "java" in _command(pid)[0]]
    daemons = [pid for pid in below if "penstock.spark.daemon" in _command(pid)]
    found = {"jvm": java, "daemon": daemons[:1], "all": [driver, *below]}[victim]
    return sorted(found, key=lambda pid: pid == os.getpid())


def _descendants(root: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat") as stat:
            parents[int(name)] = int(stat.read().rsplit(")", 1)[1].split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def _command(pid: int) -> list[str]:
    with suppress(OSError), open(f"/proc/{pid}/cmdline") as file:
        return file.read().split("\0")
    return []


def _wrapped(function: Callable[..., Any], when: str, point: str, *count: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        here = when != "after" and _reach(point, *count)
        if here and when == "torn":  # half a record, as if the machine had stopped
            log, data = args
            os.write(log._fd, data[: len(data) // 2])
        if here:
            _die(point)
        result = function(*args, **kwargs)
        if when == "after" and _reach(point, *count):
            _die(point)
        return result

    return call


class _Patch(importlib.abc.MetaPathFinder):
    """Wraps the function when its module is imported."""

    def __init__(self, point: str, number: int, counter: str) -> None:
        self._module, self._class, self._name, self._when = POINTS[point]
        self._args = (point, number, counter)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        run = spec.loader.exec_module

        def load(module: Any) -> None:
            run(module)
            owner = getattr(module, self._class) if self._class else module
            wrapped = _wrapped(getattr(owner, self._name), self._when, *self._args)
            setattr(owner, self._name, wrapped)

        spec.loader.exec_module = load  # type: ignore[method-assign]
        return spec


def _be_late(mark: str) -> None:
    with suppress(FileExistsError):
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        time.sleep(11)


if "PENSTOCK_LATE" in os.environ and any(_ASKING in word for word in sys.orig_argv):
    _be_late(os.environ["PENSTOCK_LATE"])
if "PENSTOCK_FAULT" in os.environ:
    _point, _number, _counter = os.environ["PENSTOCK_FAULT"].split(":", 2)
    sys.meta_path.insert(0, _Patch(_point, int(_number), _counter))
