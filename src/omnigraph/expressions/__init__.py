"""Typed expressions of a plan: what they mention, what they mean, and how they are read as SQL."""
