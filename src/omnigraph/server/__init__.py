"""Graphs over HTTP: one table of routes, from which router, checks, OpenAPI and documentation are made.

| module | what it is about |
|---|---|
| `routes` | the table: one record a route |
| `components` | the shapes of requests and answers, as JSON schemas with names |
| `validation` | bodies and parameters, checked against those schemas |
| `app` | the way of a request: checks in their order, the handler, the answer |
| `calls` | a request that passed its checks, and the answer to it |
| `handlers` | what each route does, a module a theme |
| `shapes` | results of the library in the words of the contract |
| `problems` | errors as answers: status, code and members |
| `registry` | the graphs that are served, swapped in one step |
| `auth` | who asks: tokens and their actors |
| `pools` | threads in which the engine works; the event loop never waits for storage |
"""
