"""One executor for patterns: few operators on columns of node and edge numbers.

| module | |
|---|---|
| `sources` | where the columns of a variable come from, by number |
| `bindings` | rows of matches as columns of numbers; joins of them |
| `walks` | neighbours, edges and everything within hops, from many nodes at once |
| `paths` | shortest paths |
| `matching` | the rows of a pattern: seeds, expansions in the order of their exact size, conditions, blocks |
| `sizes` | whether a pattern has more matches than any engine could list |
| `values` | expressions over rows, and values as integers that sort and compare as they do |
| `output` | groups, order, cut and columns of the result |

A property is read for the rows that are left when it is needed. What is not covered raises `NotCovered`, and DuckDB answers.
"""
