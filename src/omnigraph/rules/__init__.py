"""The rules of a schema: which checks a change needs, the rows that each check needs, how it finds violations, and the message of
the error. Transactions, loads and merges only supply the rows."""
