"""Prompts: messages that tell an agent what to do with the tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.errors import UsageError

MAX_ARGUMENT = 4_096


@dataclass(frozen=True)
class Prompt:
    """A message with placeholders for arguments, and the tools that it mentions."""

    name: str
    description: str
    template: str
    tools: frozenset[str]
    arguments: Mapping[str, str] = field(default_factory=dict)
    """The description of each argument, by name. All of them are required."""

    def text(self, arguments: Mapping[str, str]) -> str:
        """The message. UsageError for an argument that is missing, unknown or too long."""
        if arguments.keys() != self.arguments.keys():
            wanted = ", ".join(self.arguments) or "no arguments"
            raise UsageError(f"the prompt '{self.name}' takes {wanted}")
        for name, value in arguments.items():
            if len(value) > MAX_ARGUMENT:
                raise UsageError(f"'{name}' has more than {MAX_ARGUMENT} characters")
        return self.template.format(**{name: _quoted(value) for name, value in arguments.items()})


def _quoted(value: str) -> str:
    """An argument as an indented block, to mark it as data rather than instructions."""
    return "\n" + "\n".join(f"    {line}" for line in value.splitlines() or [""]) + "\n"


PROMPTS = (
    Prompt(
        "explore_graph",
        "Find out what the graph holds, and say what can be asked of it.",
        """\
Find out what this graph holds.
1. Read the schema with schema_get, and the number of entities with snapshot.
2. For the two or three largest types, look at a few entities with query (with `limit 5`).
3. Look at the last commits with commits_list: who writes, and what.
Then say in a few sentences what the graph is about, name five questions that it can answer, and write the query of each.
""",
        frozenset({"schema_get", "snapshot", "query", "commits_list"}),
    ),
    Prompt(
        "review_branch",
        "Review the changes of a branch before it is merged.",
        """\
Review a branch before it is merged into main. The branch is the one with this name:
{branch}
1. Ask merge_preview what a merge would do: its outcome, its numbers and its conflicts.
2. Look at the changes with diff from main to the branch; page on until you have seen all, or enough to judge.
3. Check what looks wrong with query on the branch: missing edges, doubled entities, values out of range.
Then say what changes, what is doubtful, and whether it should be merged. Do not merge: a person decides.
""",
        frozenset({"merge_preview", "diff", "query"}),
        {"branch": "The branch to review."},
    ),
    Prompt(
        "fix_rejects",
        "Mend the records that a load refused, and load them on a branch.",
        """\
A load was refused. This is what it said:
{rejects}
1. Read the schema with schema_get, and find the rule that each record breaks.
2. Mend the records where the right value is certain; list the others, and say what is missing.
3. Make a branch with branches_create, and load the mended records there with load and an idempotency_key.
4. Show with diff from main to the branch what would come in.
Do not merge: a person decides.
""",
        frozenset({"schema_get", "branches_create", "load", "diff"}),
        {"rejects": "The error of the load, with its records."},
    ),
)
