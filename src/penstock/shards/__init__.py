"""The job without Spark: wire format, routing, the shard state machine, a cluster of shards."""
