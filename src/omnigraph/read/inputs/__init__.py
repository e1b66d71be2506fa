"""The inputs of the tree: rows under its names, and whole tables in compact form."""
