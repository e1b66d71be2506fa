"""Names of types and properties from names of files and columns, which may be anything."""

from __future__ import annotations

import re
import unicodedata

from omnigraph.language.schema.properties import EDGE_ENDS, ENTITY_COLUMNS, RESERVED_NAMES

_IRREGULAR = {
    "people": "person",
    "children": "child",
    "men": "man",
    "women": "woman",
    "movies": "movie",
    "cookies": "cookie",
}
_IRREGULAR |= {word: word for word in ("series", "species", "news", "data")}
_LETTERS = str.maketrans(
    {"ß": "ss", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "œ": "oe", "ł": "l", "Ł": "L", "đ": "d", "ı": "i"}
)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_PLURAL_ENDINGS = (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"))
MAX_NAME = 60


def words_of(text: str) -> list[str]:
    """The words of a name in any style, in lower case and without accents; what is no letter or digit then divides them."""
    plain = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return [word.lower() for word in _WORD.findall("".join(sign for sign in plain if not unicodedata.combining(sign)))]


def singular(word: str) -> str:
    """The singular of an English plural, as far as its ending tells."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for ending, instead in _PLURAL_ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word[: -len(ending)] + instead
    if word.endswith("s") and not word.endswith(("ss", "us", "is", "as")) and len(word) > 3:
        return word[:-1]
    return word


def type_words(label: str) -> list[str]:
    """The words of a type's name: its last one in the singular."""
    words = words_of(label)
    return [*words[:-1], singular(words[-1])] if words else []


class Names:
    """Names that were given, so that none is given twice; those that differ only in case count as the same."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._taken = {name.lower() for name in taken}

    def claim(self, wanted: str) -> str:
        name, count = wanted, 1
        while name.lower() in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name.lower())
        return name


def type_name(label: str) -> str:
    """`port-calls` -> `PortCall`."""
    if re.fullmatch(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*", label):
        words = words_of(label)
        return label[: len(label) - len(words[-1])] + singular(words[-1]).capitalize() if words else label
    name = "".join(word.capitalize() for word in type_words(label))[:MAX_NAME]
    return name if name[:1].isalpha() else f"Type{name}"


def property_names() -> Names:
    """Names for the properties of one type, none of which the graph keeps for itself."""
    return Names(RESERVED_NAMES | ENTITY_COLUMNS | EDGE_ENDS)


def property_name(column: str, owner: str) -> str:
    """`Port Name` -> `port_name`; `id` says of what it is the id."""
    if re.fullmatch(r"[a-z][A-Za-z0-9_]*", column) and column != "id" and len(column) <= MAX_NAME:
        return column
    words = words_of(column)
    if words == ["id"]:
        words = [*words_of(owner), "id"]
    name = "_".join(words)[:MAX_NAME]
    if not name:
        return "column"
    return name if name[0].isalpha() else f"n{name}"
