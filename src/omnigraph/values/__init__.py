"""Values: their types and ranges, and how they enter and leave: literals, parameters, JSON, CSV, Arrow. Pure."""
