"""The session's blocks as portable blocks of a log entry."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from penstock.engine import blocks as b
from penstock.engine.engine import Engine
from penstock.errors import PlanError
from penstock.roomy import roomy
from penstock.session.placement import Deployed, place
from penstock.shards import entries as e
from penstock.shards import wire
from penstock.state.convert import to_arrow


@roomy
def portable(
    block: b.Block, engine: Engine, shards: int, deployed: Deployed, retire: Callable[[int], None]
) -> list[e.EntryBlock]:
    """The blocks for the shards after the session's engine has taken `block`.

    `retire` is called with a template that has no queries any more.
    """
    match block:
        case b.AddTemplate():
            deploy = place(block, shards, deployed)
            deployed.put(block.key, deploy)
            return [deploy]
        case b.AddQueries():
            assert block.qids is not None
            assert block.since is not None
            schema = deployed[block.template].params
            params = wire.pack_params(block.params, schema, engine.strings)
            told = (block.template, block.qids, params, block.history, block.since, block.unshared)
            return [e.AddQueries(*told)]
        case b.TableChange():
            schema = engine.tables[block.table].schema
            arrays = to_arrow(block.insert, schema, engine.strings)
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow())
            return [e.ChangeTable(block.table, block.remove, wire.pack_batch(batch))]
        case b.DropQueries():
            if block.template not in engine.templates:
                retire(block.template)
            return [block]
        case b.Rows() | b.Received():
            raise PlanError("rows do not go through the session's engine")
        case _:
            return [block]
