"""Pictures of a graph: its schema, or what stands around a node; as SVG, HTML, Mermaid or DOT."""
