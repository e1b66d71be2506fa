"""Printing: the same tree comes back, comments stay, a catalog prints to a text that means the same."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

sys.path.insert(0, str(Path(__file__).parent))

from schemas import trees

from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.schema.parser import parse_schema
from omnigraph.language.schema.printer import format_schema, print_schema
from omnigraph.language.schema.syntax import SchemaSyntax

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "schemas").glob("*.pg"))


@given(trees)
@settings(max_examples=120, deadline=None)
def test_a_printed_tree_parses_to_the_same_tree(tree: SchemaSyntax) -> None:
    text = print_schema(tree)
    assert parse_schema(text) == tree
    assert format_schema(text) == text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_formatting_an_example_keeps_meaning_and_comments(path: Path) -> None:
    text = path.read_text("utf-8")
    formatted = format_schema(text)
    assert parse_schema(formatted) == parse_schema(text)
    assert format_schema(formatted) == formatted
    assert re.findall(r"//.*", formatted) == re.findall(r"//.*", text)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_catalog_prints_to_a_text_that_compiles_to_it(path: Path) -> None:
    catalog = compile_schema(path.read_text("utf-8"))
    again = compile_schema(format_schema(catalog), previous=catalog)
    assert again.hash == catalog.hash


FORMATTED = """\
// a schema

// people
interface Named {
  label: String @index // shown in lists
}

/* the main
   type */
node Person @description("A \\"human\\"") implements Named {
  // who
  email: String @key
  site: String? @default("http://x") // a link
  score: F64
  @range(score, 0.5..)
  // alone

  // the end
} // Person

node Empty {}

node Place {
  // nothing yet
}

edge Knows: Person -> Person
edge Likes: Person -> Person @card(0..3) // few

edge Visits: Person -> Place {
  at: DateTime
}
// last
"""


def test_the_canonical_layout() -> None:
    crowded = (
        "// a schema\n \n\n// people\ninterface Named{label:String @index // shown in lists\n}\n/* the main\n   type */\n"
        'node Person @description( "A \\"human\\"" ) implements Named{\n// who\nemail:String@key\n\n\nsite : String ? '
        '@default("http://x") // a link\nscore: F64 @range(score,0.5 .. )\n// alone\n\n// the end\n\n} // Person\nnode Empty{ }'
        "node Place{\n// nothing yet\n}edge Knows:Person->Person{} edge Likes:Person->Person@card(0..3)// few\n"
        "edge Visits:Person->Place{at:DateTime}\n// last"
    )
    assert format_schema(crowded) == FORMATTED
    assert format_schema(FORMATTED) == FORMATTED


def test_the_empty_schema_prints_as_nothing() -> None:
    assert format_schema("  \n") == ""


def test_a_catalog_prints_only_what_a_type_declares_itself() -> None:
    text = "interface Named { label: String @unique }\nnode A implements Named { p: I32 @index @unique\n  @range(p, ..5) @unique(p, label) }"
    assert format_schema(compile_schema(text)) == (
        "interface Named {\n  label: String @unique\n}\n\nnode A implements Named {\n"
        "  p: I32 @index @unique\n  @range(p, ..5)\n  @unique(p, label)\n}\n"
    )


def test_control_characters_in_a_string_are_printed_as_escapes() -> None:
    text = 'node A @description("a\tb\nc\rd\\\\e") {}'
    assert format_schema(text) == 'node A @description("a\\tb\\nc\\rd\\\\e") {}\n'
