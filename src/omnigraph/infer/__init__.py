"""A schema, and a map of columns, guessed from data as it is found; each guess says why."""
