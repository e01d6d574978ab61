"""The job on Spark: carries bytes, keeps shards in Spark's state store; only it imports pyspark."""
