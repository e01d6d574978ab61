"""The session's blocks as portable blocks of a log entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine import blocks as b
from penstock.errors import PlanError
from penstock.roomy import roomy
from penstock.session.placement import place
from penstock.shards import entries as e
from penstock.shards import wire
from penstock.state.convert import to_arrow

if TYPE_CHECKING:
    from penstock.session.sharded import ShardedSession


@roomy
def portable(session: ShardedSession, block: b.Block) -> list[e.EntryBlock]:
    """What the shards are told when the session's engine has taken `block`."""
    engine = session._engine
    match block:
        case b.AddTemplate():
            deploy = place(block, session._job.shards, session._deployed)
            session._deployed.put(block.key, deploy)
            return [deploy]
        case b.AddQueries():
            assert block.qids is not None
            assert block.since is not None
            schema = session._deployed[block.template].params
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
                session._retire(block.template)
            return [block]
        case b.Rows() | b.Received():
            raise PlanError("rows do not go through the session's engine")
        case _:
            return [block]
