"""The index of a lineage group by one value of a row: a bitmap of queries per region of values."""
