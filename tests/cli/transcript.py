"""Transcripts: what was typed and what came back, in plain files.

    $ omnigraph branch create review
      created branch review from main            stdout, two spaces in
    ! omnigraph branch create → people (...)     stderr
    exit 1                                       only when it is not 0

Ids, times and cursors differ from run to run. They stand as <C1>, <time>, <K1>; a later command may use them: `{C1}`.
Lines of progress are left out: they come when something takes longer than a second.
OMNIGRAPH_UPDATE_TRANSCRIPTS=1 writes what came back into the files, to be read with `git diff`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

UPDATE = bool(os.environ.get("OMNIGRAPH_UPDATE_TRANSCRIPTS"))

_ULID = re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b")
_TOKEN = re.compile(r"\beyJ[A-Za-z0-9_-]{60,}")
_PLAIN = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*\+00:00"), "<time>"),
    (re.compile(r"\b1[789]\d{14}\b"), "<us>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"\), \d+\.\d s(, [\d,]+ entities/s)?$", re.MULTILINE), "), <speed>"),
    (re.compile(r'"store": \{[^}]*\}'), '"store": <counts>'),
    (re.compile(r'(?<="seconds": )[\d.]+'), "<seconds>"),
    (re.compile(r"\b(Person|City|Knows|LivesIn)-[0-9a-z]{10}\b"), r"\1-<table>"),
    (re.compile(r'(?<="id": ")[A-Za-z0-9_-]{43}(?=")'), "<type>"),
)
_PROGRESS = re.compile(r".*: (\d[\d,]*/\d[\d,]* [a-z]+(, .*)?|\d+ s)")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


RunCli = Callable[..., Ran]


@dataclass
class Names:
    """The names that stand for what differs from run to run, in order of appearance."""

    found: dict[str, str] = field(default_factory=dict)

    def hide(self, text: str) -> str:
        text = _ULID.sub(lambda match: f"<{self._name('C', match[0])}>", text)
        text = _TOKEN.sub(lambda match: f"<{self._name('K', match[0])}>", text)
        for pattern, word in _PLAIN:
            text = pattern.sub(word, text)
        return text

    def reveal(self, text: str) -> str:
        for value, name in self.found.items():
            text = text.replace("{" + name + "}", value)
        return text

    def _name(self, letter: str, value: str) -> str:
        if value not in self.found:
            number = 1 + sum(name.startswith(letter) for name in self.found.values())
            self.found[value] = f"{letter}{number}"
        return self.found[value]


def commands_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("$ ", "#"))]


def play(path: Path, run: RunCli, folder: str) -> str:
    """Run the commands of a transcript; the transcript as it came out."""
    names = Names()
    parts = []
    for line in commands_of(path.read_text(encoding="utf-8")):
        parts.append(line)
        if line.startswith("#"):
            continue
        words = shlex.split(names.reveal(line[2:]))
        environment = {}
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        assert words.pop(0) == "omnigraph"
        ran = run(words, environment)
        shown = [names.hide(text.replace(folder, "<folder>")) for text in (ran.out, ran.err)]
        parts += [f"  {text}".rstrip() for text in shown[0].splitlines()]
        parts += [f"! {text}".rstrip() for text in shown[1].splitlines() if not _PROGRESS.fullmatch(text)]
        if ran.code:
            parts.append(f"exit {ran.code}")
    return "\n".join(parts) + "\n"
