"""`.pg` schemas and `.gq` queries: text -> syntax -> typed catalog / typed plan. Pure: no I/O, no Lance, no Spark."""
