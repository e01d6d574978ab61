"""The command line. Imports session and below."""
