"""Values: their types and ranges, and their forms outside: literals, parameters, JSON, CSV, Arrow. Pure."""
