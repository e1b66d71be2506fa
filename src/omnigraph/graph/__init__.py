"""The public interface: init, open, and everything one can do with a graph."""
