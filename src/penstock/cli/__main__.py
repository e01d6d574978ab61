"""`python -m penstock.cli` is the `penstock` command."""

from __future__ import annotations

from penstock.cli.main import main

main()
