"""The words that arguments of bulk work take."""

from __future__ import annotations

from typing import Literal

LoadMode = Literal["append", "merge", "patch", "delete", "overwrite"]
FileFormat = Literal["jsonl", "csv", "parquet"]
StreamFormat = Literal["jsonl", "csv", "parquet", "arrow"]
Missing = Literal["refuse", "skip", "stub"]
"""What a load does about edges that name nodes which there are not."""
Lost = Literal["report", "reset", "drop"]
"""What repair does about a branch whose head cannot be read in full."""
