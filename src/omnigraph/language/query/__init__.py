"""The query language: `.gq` text to a typed plan, its printer and linter."""
