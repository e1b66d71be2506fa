"""What can be done about a damaged graph: rebuild what follows from the rest, and go on without what is lost."""
