r"""`@check` patterns: one regular expression that must mean the same in every engine that runs it.

Patterns search anywhere in the value. They run as RE2 in process and as Python in the pipeline, so a pattern may use
only what both have: no lookaround, no backreference, nothing that one of them reads differently.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import lru_cache

_MAX_REPEAT = 1000
"""RE2 refuses larger counts."""

_GROUPS = (
    ("(?=", "lookahead"),
    ("(?!", "lookahead"),
    ("(?<=", "lookbehind"),
    ("(?<!", "lookbehind"),
    ("(?>", "an atomic group"),
    ("(?P=", "a backreference"),
    ("(?(", "a conditional group"),
    ("(?#", "a comment group"),
    ("(?P>", "recursion"),
)
_TOKEN = re.compile(
    r"""(?P<escape>\\.)|(?P<group>\((?:\?(?:<[=!]|P[=>]|[=!>(\#]|[A-Za-z-]+[:)])?)?)|(?P<quantifier>(?:[*+?]|\{\d*,?\d*\})[+?]?)|(?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_FLAGS = re.compile(r"\(\?([A-Za-z]*)(?:-([A-Za-z]*))?[:)]")


@dataclass(frozen=True)
class PatternFault:
    """Why a pattern is refused: a `feature` that not all engines have, or the `reason` why it is not valid."""

    feature: str | None
    reason: str


def pattern_fault(pattern: str) -> PatternFault | None:
    """What is wrong with a pattern; None if every engine can run it."""
    feature = _unshared_feature(pattern)
    if feature is not None:
        return PatternFault(feature, f"uses {feature}")
    try:
        _compile(pattern)
    except (re.error, OverflowError) as error:
        return PatternFault(None, str(error))
    except RecursionError:
        return PatternFault(None, "groups are nested too deeply")
    except FutureWarning:
        return PatternFault("a set operation inside [...]", "uses a set operation inside [...]")
    return None


@lru_cache(maxsize=1024)
def python_pattern(pattern: str) -> re.Pattern[str]:
    r"""The pattern as Python runs it, meaning what RE2 means: `\d \w \s \b` are ASCII, `$` is the very end."""
    return _compile(pattern)


def _compile(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        return re.compile(_with_strict_end(pattern), re.ASCII)


def _with_strict_end(pattern: str) -> str:
    """Python's `$` also matches before a final newline; RE2's does not."""
    if any("m" in match.group(1) for match in _FLAGS.finditer(pattern)):
        return pattern
    pieces: list[str] = []
    for kind, text, in_class in _scan(pattern):
        pieces.append(r"\Z" if kind == "other" and text == "$" and not in_class else text)
    return "".join(pieces)


def _unshared_feature(pattern: str) -> str | None:
    for kind, text, in_class in _scan(pattern):
        feature = None
        if kind == "escape":
            feature = _escape_feature(text[1], in_class)
        elif in_class:
            feature = "a set inside a set" if text == "[" else None
        elif kind == "group":
            feature = _group_feature(text)
        elif kind == "quantifier":
            feature = _quantifier_feature(text)
        if feature is not None:
            return feature
    return None


def _scan(pattern: str) -> list[tuple[str, str, bool]]:
    """The kind, the text, and whether it is inside [...], for each piece; the brackets themselves count as outside."""
    pieces: list[tuple[str, str, bool]] = []
    position = 0
    while position < len(pattern):
        if pattern[position] == "[":
            end = _class_end(pattern, position)
            pieces.append(("other", "[", False))
            pieces.extend(_class_pieces(pattern[position + 1 : end]))
            if end < len(pattern):
                pieces.append(("other", "]", False))
            position = end + 1
            continue
        match = _TOKEN.match(pattern, position)
        if match is None:  # a lone backslash at the end
            pieces.append(("other", pattern[position], False))
            position += 1
            continue
        pieces.append((str(match.lastgroup), match.group(), False))
        position = match.end()
    return pieces


def _class_end(pattern: str, start: int) -> int:
    position = start + 1
    if pattern.startswith("^", position):
        position += 1
    first = True
    while position < len(pattern):
        if pattern[position] == "]" and not first:
            return position
        position += 2 if pattern[position] == "\\" else 1
        first = False
    return len(pattern)


def _class_pieces(body: str) -> list[tuple[str, str, bool]]:
    return [("escape" if len(piece) == 2 else "other", piece, True) for piece in re.findall(r"\\.|.", body, re.DOTALL)]


def _escape_feature(letter: str, in_class: bool) -> str | None:
    if letter.isdigit():
        return "an octal escape" if letter == "0" or in_class else "a backreference"
    if letter == "Z":
        return r"\Z (write $)"
    if letter in "uUN":
        return f"\\{letter} (write the character itself)"
    return None


def _group_feature(text: str) -> str | None:
    for start, feature in _GROUPS:
        if text.startswith(start):
            return feature
    flags = _FLAGS.fullmatch(text)
    if flags:
        unknown = (set(flags.group(1)) | set(flags.group(2) or "")) - set("ims")
        if unknown:
            return f"the flag {min(unknown)}"
    return None


def _quantifier_feature(text: str) -> str | None:
    if len(text) > 1 and text.endswith("+"):
        return "a possessive quantifier"
    if text.startswith("{,"):
        return "a repeat without a minimum (write {0,n})"
    for count in re.findall(r"\d+", text):
        if len(count) > 4 or int(count) > _MAX_REPEAT:
            return f"a repeat of more than {_MAX_REPEAT}"
    return None
