"""Pictures of a graph: its schema, or the neighbourhood of a node; as SVG, PNG, HTML, Mermaid or DOT."""
