"""Adjacency: ids as numbers, edges as integer arrays. Held in memory, kept as files beside the tables, composed for any version.

| module | |
|---|---|
| `segment` | a stored file of arrays: written once, read whole or by blocks, every block with its checksum |
| `numbering` | numbers for the ids of a node table: they are only ever added to |
| `cover` | which rows of some fragments a version has, and which fragments are left over |
| `nodes` | a node table at a version: which numbers live, and its columns by number |
| `csr` | neighbours of each number, and small changes on top of them |
| `edges` | an edge table at a version: its neighbours in either direction |
| `zones` | key columns of edges that ascend within their fragments: in which rows a value is |
| `coding` | numbers in as few bits as they need |
| `building` | writing segments: by load, optimize and large merges |

All of it is derived. A segment is named by the fragments that it covers; one that is missing, damaged or of another time makes
a read slower and never changes an answer.
"""
