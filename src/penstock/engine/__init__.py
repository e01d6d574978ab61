"""The engine shard: a deterministic state machine from blocks to changes."""
