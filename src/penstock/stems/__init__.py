"""SteMs: shared state of windows that joins probe (CACQ §3.3.1)."""
