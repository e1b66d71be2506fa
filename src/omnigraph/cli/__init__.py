"""The command line: a thin front end over `omnigraph.graph`. Doing is apart from showing: see `output.py`."""
