"""Results as JSON, in the words of the documented interface: one place for the command line and for servers.

One module per noun; each function says the members of what it makes. Members that are null are left out.
"""
