"""What the tree reads: rows under its names, and whole tables in compact form."""
