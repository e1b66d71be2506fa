"""The keywords of queries. All but the reserved ones are soft: where they mean nothing, they are names."""

from __future__ import annotations

RESERVED = ("and", "or", "not", "is", "in", "null", "true", "false")
"""They name no edge and are no bare name where an operator or a value may stand."""

KEYWORDS = (
    *("query", "match", "with", "return", "distinct", "as", "order", "asc", "desc", "limit", "offset"),
    *("insert", "create", "upsert", "update", "set", "where", "delete"),
    *RESERVED,
    *("contains", "starts_with", "ends_with"),
    *("shortest", "path", "from", "to", "along", "via", "after", "union", "optional", "unnest", "having"),
    *("collect", "median", "percentile", "first", "last", "by", "count", "sum", "avg", "min", "max"),
    *("case", "when", "then", "else", "end", "any", "all", "exists", "now", "date", "datetime"),
    *("search", "all_words", "phrase", "fuzzy", "match_text", "nearest", "bm25", "rrf"),
)
