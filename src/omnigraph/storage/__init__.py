"""Bytes: one contract for local disk, memory and object stores."""
