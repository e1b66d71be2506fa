"""The command line: a thin front end over `omnigraph.graph`. Commands compute results; `output.py` shows them."""
