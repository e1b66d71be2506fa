"""Typed expressions of a plan: what they mention, what they mean, and their form in SQL."""
