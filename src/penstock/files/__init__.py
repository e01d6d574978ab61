"""Files of rows that every runner reads, and the sinks that every runner writes."""
