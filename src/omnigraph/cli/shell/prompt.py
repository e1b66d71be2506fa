"""The shell on a terminal: editing with prompt_toolkit, with colours and completion from the tables for editors."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from omnigraph.cli.output import line, print_error
from omnigraph.cli.process import Terminated, end_process
from omnigraph.cli.shell.commands import OWN, program_words
from omnigraph.cli.shell.session import MODES, Abandoned, Failed, Quit, Session
from omnigraph.errors import Cancelled, OmnigraphError
from omnigraph.graph.editing import completions, function_names, is_unfinished, keywords

if TYPE_CHECKING:
    from omnigraph.graph.editing import Catalog

STYLE = Style.from_dict(
    {
        "prompt": "bold",
        "keyword": "ansiblue bold",
        "function": "ansicyan",
        "type": "ansigreen",
        "variable": "ansimagenta",
        "string": "ansiyellow",
        "number": "ansicyan",
        "comment": "ansibrightblack",
        "command": "bold",
    }
)
_TOKEN = re.compile(
    r'(?P<comment>//.*|/\*.*?(?:\*/|$))|(?P<string>"(?:[^"\\]|\\.)*"?)|(?P<variable>\$\w+)|(?P<number>\b\d+(?:\.\d+)?\b)'
    r"|(?P<member>\.\s*\w+)|(?P<word>[A-Za-z_]\w*)"
)


class Colours(Lexer):
    """Highlights words by lookup, without parsing, so that unfinished text has colours too."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = document.lines
        is_command = document.text.lstrip().startswith(".")

        def coloured(number: int) -> StyleAndTextTuples:
            if number == 0 and is_command:
                name, separator, rest = lines[0].partition(" ")
                return [("class:command", name), ("", separator), *_coloured(rest)]
            return _coloured(lines[number]) if number < len(lines) else []

        return coloured


def _coloured(text: str) -> StyleAndTextTuples:
    shown: StyleAndTextTuples = []
    end = 0
    for token in _TOKEN.finditer(text):
        shown.append(("", text[end : token.start()]))
        shown.append((_style(token), token[0]))
        end = token.end()
    return [*shown, ("", text[end:])]


def _style(token: re.Match[str]) -> str:
    if token.lastgroup == "member":
        return ""
    if token.lastgroup != "word":
        return f"class:{token.lastgroup}"
    word = token[0]
    if word in keywords():
        return "class:keyword"
    if word in function_names():
        return "class:function"
    return "class:type" if word[0].isupper() else ""


class Suggestions(Completer):
    """Completes commands after a leading dot, and types, edges, properties, variables and keywords in a query."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        try:
            if before.lstrip().startswith("."):
                yield from self._of_command(before.lstrip())
            elif complete_event.completion_requested or before[-1:].strip():
                yield from self._of_query(document.text, document.cursor_position_row, document.cursor_position_col)
        except OmnigraphError:
            return  # no suggestions if the graph does not answer

    def _of_command(self, before: str) -> Iterator[Completion]:
        name, separator, rest = before[1:].partition(" ")
        if not separator:
            yield from _starting(name, [*OWN, *program_words()], {word: OWN[word].help for word in OWN})
        elif name in ("use", "diff", "branch", "show"):
            word = rest.rpartition(" ")[2]
            yield from _starting(word, _revisions(self._session), {})
        elif name == "mode":
            yield from _starting(rest, MODES, {})
        elif name == "timing":
            yield from _starting(rest, ("on", "off"), {})
        elif name == "schema":
            yield from _starting(rest, _types(self._session.catalog), {})
        elif name in ("explain", "analyze"):
            yield from self._of_query(rest, rest.count("\n"), len(rest.rpartition("\n")[2]))

    def _of_query(self, text: str, row: int, column: int) -> Iterator[Completion]:
        before = text.split("\n")[row][:column]
        word = re.search(r"\w*$", before)
        start = -len(word[0]) if word else 0
        for completion in completions(text, row + 1, column + 1, self._session.catalog):
            yield Completion(completion.label, start_position=start, display_meta=completion.detail or completion.kind)


def _starting(prefix: str, words: Iterable[str], meanings: dict[str, str]) -> Iterator[Completion]:
    for word in dict.fromkeys(words):
        if word.lower().startswith(prefix.lower()):
            yield Completion(word, start_position=-len(prefix), display_meta=meanings.get(word, ""))


def _types(catalog: Catalog) -> list[str]:
    return [*catalog.nodes, *catalog.edges, *catalog.interfaces]


def _revisions(session: Session) -> list[str]:
    graph = session.graph
    return [branch.name for branch in graph.branches.list()] + [tag.name for tag in graph.tags.list()]


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text
        if text.lstrip().startswith(".") or not text.strip() or not is_unfinished(text):
            buffer.validate_and_handle()
        else:
            buffer.newline()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline()

    return keys


def history_in(folder: Path | None) -> History:
    """The history of the prompt, in a file that only its owner can read, or in memory if it cannot be read and written."""
    if folder is None:
        return InMemoryHistory()
    path = folder / "history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def run_prompt(session: Session, name: str, folder: Path | None) -> NoReturn:
    """Read, run and show statements until the user leaves, which ends the process. Ctrl-C clears the line or cancels what runs;
    Ctrl-D leaves."""
    prompt_session: PromptSession[str] = PromptSession(
        history=history_in(folder),
        lexer=Colours(),
        completer=Suggestions(session),
        complete_in_thread=True,
        complete_while_typing=True,
        key_bindings=_keys(),
        multiline=True,
        style=STYLE,
        prompt_continuation=lambda width, _number, wraps: ("" if wraps else "... ").rjust(width),
        enable_open_in_editor=True,
    )
    print(f"{line(session.graph.uri)} at {line(session.revision)}. '.help' lists the commands, Ctrl-D leaves.")
    with contextlib.suppress(Quit, EOFError):
        while True:
            try:
                typed = prompt_session.prompt([("class:prompt", f"{line(name)}:{line(session.revision)}> ")])
            except Terminated:
                raise
            except KeyboardInterrupt:
                continue
            _run(session, typed)
    end_process()


def _run(session: Session, typed: str) -> None:
    """Run what was typed. Errors are shown, and the shell continues."""
    try:
        session.run(typed)
    except Terminated:
        raise
    except (Cancelled, KeyboardInterrupt):
        print("cancelled")
    except Abandoned:
        print("no longer waited for; a write may still be published ('.log' shows it)")
    except OmnigraphError as error:
        print_error(error, session.out.as_json)
    except Failed:
        pass  # it has printed why
