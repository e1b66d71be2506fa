"""The ways to answer a read in process."""
