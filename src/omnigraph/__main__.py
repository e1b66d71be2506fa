"""`python -m omnigraph`: the same as `omnigraph`."""

from __future__ import annotations

from omnigraph.cli.main import main

main()
