"""The eddy: rows with their lineage visit shared filters and SteMs in a learned order (CACQ)."""
