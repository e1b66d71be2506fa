"""The commands of the shell: its own, and every command of the program that works on a graph."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING

import click

from omnigraph.cli.output import cut_lines, line, screen_width
from omnigraph.cli.shell.session import MODES, Failed, Quit, Session
from omnigraph.errors import NotFound, UsageError

if TYPE_CHECKING:
    from omnigraph.graph.editing import Statement


_TYPING = (
    "A query is typed as in a .gq file, or without its 'query name() { }'. It runs at its closing bracket; without 'query', "
    "what takes several lines runs at an empty line or a semicolon. Alt+Enter starts a line, Ctrl-C ends what runs."
)


@dataclass(frozen=True)
class Command:
    """A command of the shell: its arguments, its description, and its function."""

    arguments: str
    help: str
    run: Callable[[Session, str], None]


def run_command(session: Session, text: str) -> None:
    """Run a line that begins with a dot. UsageError if there is no such command."""
    from omnigraph.cli.main import documented

    name, _, rest = text[1:].strip().partition(" ")
    own = OWN.get(name)
    if own is not None:
        own.run(session, rest.strip())
        return
    words = documented([name, *_words(rest)])
    command, path = _of_program(words)
    if command is None:
        raise UsageError(f"there is no command '.{line(name)}'", hint=".help lists the commands")
    _run_of_program(session, command, path, words[len(path) :])


# ---------------------------------------------------------------- commands of the shell


def _help(session: Session, _rest: str) -> None:
    rows = [(f".{name} {command.arguments}".rstrip(), command.help) for name, command in OWN.items()]
    width = max(len(usage) for usage, _ in rows)
    for usage, help in rows:
        print(f"{usage:<{width}}  {help}")
    others = ", ".join(f".{name}" for name in program_words() if name not in OWN)
    for text in (_TYPING, f"Commands of the program work on this graph, too, as '.log --limit 5' does: {others}."):
        print("\n" + fill(text, min(screen_width(), 100)))


def _schema(session: Session, rest: str) -> None:
    if not rest:
        print(session.catalog.source.rstrip("\n"))
        return
    from omnigraph.graph.editing import declarations

    text = declarations(session.catalog, rest)
    if text is None:
        raise NotFound(f"the schema has no type '{line(rest)}'", hint=".schema shows all of it")
    print(text.rstrip("\n"))


def _use(session: Session, rest: str) -> None:
    if not rest:
        print(session.revision)
        return
    session.use(rest)
    head = session.graph.show(rest)
    what = "" if session.stands_on_branch() else ", read only: it is not a branch"
    print(f"now at {line(rest)}, commit {head.id}{what}")


def _branches(session: Session, _rest: str) -> None:
    run_command(session, ".branch list")


def _more(session: Session, _rest: str) -> None:
    session.show_more()


def _explain(session: Session, rest: str) -> None:
    for statement in _statements(rest, ".explain"):
        print(cut_lines(str(session.explained(statement, analyze=False))))


def _analyze(session: Session, rest: str) -> None:
    for statement in _statements(rest, ".analyze"):
        print(cut_lines(str(session.explained(statement, analyze=True))))


def _sql(session: Session, rest: str) -> None:
    session.run_sql(rest)


def _timing(session: Session, rest: str) -> None:
    session.timing = _choice("timing", rest or ("off" if session.timing else "on"), ("on", "off")) == "on"
    print(f"timing is {'on' if session.timing else 'off'}")


def _mode(session: Session, rest: str) -> None:
    if rest:
        session.mode = _choice("mode", rest, MODES)
    print(f"mode is {session.mode}")


def _param(session: Session, rest: str) -> None:
    for word in _words(rest):
        name, separator, value = word.removeprefix("$").partition("=")
        if not name:
            raise UsageError(f"'{word}' is not NAME=VALUE", hint=".param who=ada, and .param who to forget it")
        if separator:
            session.params[name] = value
        elif session.params.pop(name, None) is None:
            raise NotFound(f"no parameter '{name}' is set", hint=".param NAME=VALUE sets one")
    for name, value in sorted(session.params.items()):
        print(line(f"${name} = {value}"))


def _quit(_session: Session, _rest: str) -> None:
    raise Quit


OWN: Mapping[str, Command] = {
    "help": Command("", "This list.", _help),
    "schema": Command("[TYPE]", "The schema, or one type of it.", _schema),
    "branches": Command("", "The branches, and how far each is from main.", _branches),
    "use": Command("REVISION", "Switch to another branch, or look at a tag, a commit or main~3.", _use),
    "explain": Command("QUERY", "How a query would run.", _explain),
    "analyze": Command("QUERY", "Run a query and show how it ran: rows and times of every step.", _analyze),
    "sql": Command("SELECT", "Query in SQL: every type is a table.", _sql),
    "param": Command("[NAME=VALUE]...", "Set parameters for the queries that declare them; NAME forgets one.", _param),
    "more": Command("", "The next rows of the last result.", _more),
    "mode": Command("|".join(MODES), "How rows are shown.", _mode),
    "timing": Command("on|off", "Show how long each statement takes.", _timing),
    "quit": Command("", "Leave; so do .exit and Ctrl-D.", _quit),
    "exit": Command("", "The same as .quit.", _quit),
}


def _statements(rest: str, command: str) -> Iterator[Statement]:
    from omnigraph.graph.editing import statements

    typed = statements(rest)
    if not typed:
        raise UsageError(f"{command} takes a query", hint=f"{command} match {{ $p: Person }} return {{ $p }}")
    for statement in typed:
        if statement.kind != "read":
            raise UsageError(f"{command} takes a read, not a change")
        yield statement


def _choice(what: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise UsageError(f"'{line(value)}' is not a {what}", hint=f"one of {', '.join(known)}")
    return value


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"cannot read '{line(text)}': {error}", hint='quote values with spaces: "a b"') from None


# ---------------------------------------------------------------- commands of the program


def program_words() -> list[str]:
    """The first words of the program's commands that work on a graph."""
    root = _root()
    return sorted(name for name in root.commands if _takes_graph(root.commands[name]))


def _takes_graph(command: click.Command) -> bool:
    if isinstance(command, click.Group):
        return any(_takes_graph(inner) for inner in command.commands.values())
    return command.name not in ("shell", "init", "import", "mcp") and any(
        parameter.name == "store" for parameter in command.params
    )


def _root() -> click.Group:
    from omnigraph.cli.main import cli

    return cli


def _of_program(words: Sequence[str]) -> tuple[click.Command | None, list[str]]:
    """The command that these words begin with, and the words that name it."""
    command: click.Command | None = _root()
    path: list[str] = []
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.commands.get(word)
        path.append(word)
    return (command, path) if command is not None and _takes_graph(command) else (None, path)


def _run_of_program(session: Session, command: click.Command, path: Sequence[str], words: Sequence[str]) -> None:
    """Run a command of the program on the graph of the session, at its revision. Raises Failed if the command fails."""
    from omnigraph.cli.main import run

    taken = {parameter.name: parameter.opts for parameter in command.params if isinstance(parameter, click.Option)}
    added: list[str] = []
    if session.settings.as_actor and "actor" in taken:
        added += ["--as", session.settings.as_actor]
    for name in ("revision", "branch"):
        is_given = any(word.partition("=")[0] in taken.get(name, ()) for word in words)
        if name in taken and not is_given and (name == "revision" or session.stands_on_branch()):
            added += [f"--{name}", session.revision]
    code = run([*session.settings.flags(), *path, *words, *added])
    if code:
        raise Failed(code)
