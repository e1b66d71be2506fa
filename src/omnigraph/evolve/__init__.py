"""Changing the schema of a branch: rows checked by the rules that are new to them, then one commit."""
