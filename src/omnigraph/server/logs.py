"""One line a request: who asked which route of which graph, and what came of it. Never a body, a parameter or a token."""

from __future__ import annotations

import datetime as dt
import json
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from omnigraph.api.structs import present


@dataclass(frozen=True)
class RequestLog:
    """Lines as text (`name=value`) or as JSON."""

    format: str = "text"
    stream: IO[str] = field(default_factory=lambda: sys.stderr)

    def write(self, event: str, **members: Any) -> None:
        """One line; members that are None are left out."""
        value = {"time": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"), "event": event, **present(members)}
        if self.format == "json":
            text = json.dumps(value, ensure_ascii=True, default=str)
        else:
            text = " ".join(_words(value))
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def defect(self, request_id: str, error: BaseException) -> None:
        """What nobody expected, with its traceback, under the id that the client was told."""
        trace = "".join(traceback.format_exception(error)) if self.format == "json" else None
        self.write("defect", request_id=request_id, error=f"{type(error).__name__}: {error}", trace=trace)
        if trace is None:
            traceback.print_exception(error, file=self.stream)


def _words(value: Mapping[str, Any]) -> list[str]:
    words = [f"{value['time']} {value['event']}"]
    for name, member in value.items():
        if name not in ("time", "event"):
            text = str(member)
            plain = text.isascii() and text.isprintable() and " " not in text and '"' not in text
            words.append(f"{name}={text if plain else json.dumps(text)}")
    return words
