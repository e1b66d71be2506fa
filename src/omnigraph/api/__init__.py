"""Results as JSON: each is declared once, and its JSON, its OpenAPI component, the client's decoding and the help follow from that.

One module per noun. Structs of a `Served` name are those of HTTP, in the words of the contract.
"""
