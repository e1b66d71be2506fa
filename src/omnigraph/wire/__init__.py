"""Results as JSON, as documented: one place for the command line and for servers.

One module per noun; each docstring lists the members of the result. Members that are null are left out.
"""
