"""Adjacency: ids as numbers, edges as integer arrays. Held in memory, stored next to the tables, composed for any version.

| module | |
|---|---|
| `segment` | a stored file of arrays: written once, read whole or by blocks, each block with a checksum |
| `numbering` | numbers for the ids of a node table; numbers are added, never changed |
| `cover` | how a version differs from the fragments that an array was built from |
| `nodes` | a node table at a version: which node numbers are live, and its columns by node number |
| `csr` | neighbours by node number, and small changes on top of them |
| `edges` | an edge table at a version: its neighbours in both directions |
| `zones` | key columns of edges that ascend within their fragments: which rows may have a value |
| `coding` | integers in as few bits as they need |
| `index` | finds, builds and caches all of this for any version |
| `building` | writes segments: for load, optimize and large merges |

All of it is derived. A segment is named by the fragments that it covers; a missing, damaged or outdated one makes reads slower
and never changes an answer.
"""
