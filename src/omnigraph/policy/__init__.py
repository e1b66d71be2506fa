"""Policies: the question that is asked before each call, and the gate that answers it."""
