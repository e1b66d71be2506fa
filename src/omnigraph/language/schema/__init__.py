"""The schema language: `.pg` text to a typed catalog, its printer, linter and migration planner."""
