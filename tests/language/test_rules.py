"""The published rules are those of the parsers: every sentence that the rules make parses."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import pytest

from omnigraph.language.grammar_reference import query_terminals, rules, schema_terminals
from omnigraph.language.parsing.cursor import MAX_DEPTH
from omnigraph.language.query.parser import QueryParser, parse_queries
from omnigraph.language.schema.parser import SchemaParser, parse_schema

MAX_LEVEL = 12
"""Beyond it, the alternative that ends soonest is taken."""

EXAMPLES = {
    "NAME": ["a", "some_name"],
    "VARIABLE": ["$p", "$_"],
    "TYPE_NAME": ["Person"],
    "INTEGER": ["1", "23"],
    "FLOAT": ["2.5"],
    "STRING": ['"x"', '"\\n"'],
    "DURATION": ["30 days", "1 month"],
    "SCALAR": ["String", "I32"],
    "ENUM_VALUE": ["a-1", "9"],
}


class Sentences:
    """Random sentences of rules. What is repeated is repeated once: then no clause runs into the next."""

    def __init__(self, rules: list[str], seed: int) -> None:
        self._random = random.Random(seed)
        self.rules: defaultdict[str, list[list[str]]] = defaultdict(list)
        for rule in rules:
            name, _, body = rule.partition(": ")
            self.rules[name].append(re.findall(r"'[^']+'|\w+|[()|?*+]", body))
        self.used: Counter[tuple[str, int]] = Counter()
        self._level = 0

    def of(self, name: str) -> Iterator[str]:
        if name in EXAMPLES:
            yield self._random.choice(EXAMPLES[name])
            return
        self._level += 1
        alternatives = self.rules[name]
        is_free = self._level <= MAX_LEVEL
        number = min(range(len(alternatives)), key=lambda n: self.used[name, n]) if is_free else 0
        self.used[name, number] += is_free
        yield from self._written(alternatives[number])
        self._level -= 1

    def _written(self, tokens: list[str]) -> Iterator[str]:
        branches = split(tokens)
        if len(branches) > 1:
            yield from self._written(branches[0] if self._level > MAX_LEVEL else self._random.choice(branches))
            return
        position = 0
        while position < len(tokens):
            end = closing(tokens, position) if tokens[position] == "(" else position
            sign = tokens[end + 1] if end + 1 < len(tokens) else ""
            if sign not in ("?", "*") or (self._level <= MAX_LEVEL and self._random.random() < 0.5):
                item = tokens[position]
                if item == "(":
                    yield from self._written(tokens[position + 1 : end])
                else:
                    yield from [item[1:-1]] if item.startswith("'") else self.of(item)
            position = end + (2 if sign in ("?", "*", "+") and sign else 1)


def split(tokens: list[str]) -> list[list[str]]:
    """The alternatives of a rule, or of what stands in parentheses."""
    branches: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token == "(") - (token == ")")
        if token == "|" and not depth:
            branches.append([])
        else:
            branches[-1].append(token)
    return branches


def closing(tokens: list[str], position: int) -> int:
    depth = 0
    for place in range(position, len(tokens)):
        depth += (tokens[place] == "(") - (tokens[place] == ")")
        if not depth:
            return place
    raise AssertionError("a rule closes its parentheses")


LANGUAGES: dict[str, tuple[type, str, dict[str, str], Callable[[str], object]]] = {
    "queries": (QueryParser, "query", query_terminals(), parse_queries),
    "schemas": (SchemaParser, "schema", schema_terminals(), parse_schema),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_sentence_of_the_rules_parses(language: str) -> None:
    parser, start, _, parse = LANGUAGES[language]
    sentences = Sentences(rules(parser), seed=7)
    starts = [start] if language == "queries" else ["interface", "node", "edge"]
    for number in range(400):
        text = re.sub(r"@ (?=\w)", "@", " ".join(sentences.of(starts[number % len(starts)])))
        if text.count("(") + text.count("{") + text.count("[") < MAX_DEPTH:
            parse(text)
    alternatives = {(name, number) for name, known in sentences.rules.items() for number in range(len(known))}
    assert alternatives - set(sentences.used) <= {("file", 0), ("schema", 0)}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_name_in_a_rule_is_a_rule_or_a_token(language: str) -> None:
    parser, _, terminals, _ = LANGUAGES[language]
    published = rules(parser)
    defined = {rule.partition(":")[0] for rule in published}
    named = {name for rule in published for name in re.findall(r"\w+", re.sub(r"'[^']+'", "", rule.partition(": ")[2]))}
    assert named <= defined | set(terminals)
    assert set(terminals) <= named
    assert defined - named <= {"file", "schema"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_example_of_a_token_matches_its_published_pattern(language: str) -> None:
    for name, pattern in LANGUAGES[language][2].items():
        assert all(re.fullmatch(pattern, example) for example in EXAMPLES[name])
