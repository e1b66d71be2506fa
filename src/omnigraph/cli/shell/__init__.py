"""The shell: queries, changes and commands that are typed one after another, or read from a script."""
