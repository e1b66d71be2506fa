"""A package: its browser is closed when its tests have run, before tests that run event loops of their own."""
