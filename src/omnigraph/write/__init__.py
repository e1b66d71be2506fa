"""Transactions: small writes in this process. A write is a pure function of one pinned snapshot, published once."""
