"""Graphs as tools for agents: the Model Context Protocol over the operations of the server."""
