"""Makes tasks of shards straggle, so that Spark speculates, and attempts that differ.

On the PYTHONPATH of executors. Some first attempts sleep; whether an attempt saves its input or its
whole state is drawn by lot, so that two attempts of a task leave different files. Attempts
beyond the first are counted in the file PENSTOCK_ATTEMPTS.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import random
import sys
import time
from typing import Any

MODULE = "penstock.spark.shard_batch"
SLEEP_S = 5.0


def _straggle(module: Any) -> None:
    from pyspark import TaskContext

    save, rng = module._save, random.Random(os.getpid())

    def late_save(*args: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        before, after = (rng.random() < 0.15 for _ in range(2))
        if context.attemptNumber():
            before = after = False
            with open(os.environ["PENSTOCK_ATTEMPTS"], "ab") as file:
                file.write(b".")
        time.sleep(SLEEP_S if before else 0)
        saved = save(*args)
        time.sleep(SLEEP_S if after else 0)
        return saved

    module._save = late_save
    module._limit = lambda *args: rng.choice((0, 1 << 40))


class _Patch(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        run = spec.loader.exec_module

        def load(module: Any) -> None:
            run(module)
            _straggle(module)

        spec.loader.exec_module = load  # type: ignore[method-assign]
        return spec


if "PENSTOCK_ATTEMPTS" in os.environ:
    sys.meta_path.insert(0, _Patch())
