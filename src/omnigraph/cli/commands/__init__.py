"""One module per noun; each has `register(cli)`."""
