"""Nothing about graphs: caches, lazy imports, frozen values, deadlines, memory, folders of the user and failpoints."""
