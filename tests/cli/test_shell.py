"""The shell: when a text is whole, what a script does and where its errors are, and a session at a real terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli.transcript import Ran, RunCli
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

import omnigraph as og
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings
from omnigraph.cli.shell.prompt import Colours, Suggestions
from omnigraph.cli.shell.session import Session, pieces
from omnigraph.graph.editing import is_unfinished

OMNIGRAPH = str(Path(sys.executable).with_name("omnigraph"))
PATIENCE_S = 60
TRIES = 20
READ = "match { $p: Person } return { $p.name as name } order { name }"


@pytest.mark.parametrize(
    ("text", "unfinished"),
    [
        ("match { $p: Person }", True),
        ("match { $p: Person", True),
        (READ, False),
        ("match { $p: Person }\nreturn { $p }", True),
        ("match { $p: Person }\nreturn { $p }\n", False),
        ("match { $p: Person }\nreturn { $p };", False),
        ("match { $p: Person }\n\n", True),
        ("query q() {", True),
        ("query q() { match { $p: Person } return { $p } }", False),
        ("query q() {\n  match { $p: Person }\n  return { $p }\n}", False),
        ("update Person set { age: 1 } where name = 'x'", False),
        ("insert Person { name: ", True),
        ("/* a comment", True),
        ("// a comment", False),
        ("match { $p Person }", False),
        ("select 1", False),
        ("", False),
    ],
)
def test_a_text_waits_for_more_only_when_more_can_make_it_whole(text: str, unfinished: bool) -> None:
    assert is_unfinished(text) is unfinished


def test_a_script_is_cut_where_statements_end() -> None:
    script = f"\n.mode csv\n{READ}\nmatch {{ $p: Person }}\nreturn {{ $p.age }}\n\nquery q() {{\n  match {{"
    assert [(each.lines_before, each.text.split("\n")[0]) for each in pieces(io.StringIO(script))] == [
        (1, ".mode csv"),
        (2, READ),
        (3, "match { $p: Person }"),
        (6, "query q() {"),
    ]


@pytest.fixture
def script(run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    def run(text: str, *arguments: str) -> Ran:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return run_cli(["shell", *arguments])

    return run  # type: ignore[return-value]


CASES = {
    "a read": (READ, 0, "name\nAda\nBo\nCy\n(3 rows)\n", ""),
    "no rows": ("match { $p: Person { name: \"Nobody\" } } return { $p.name }", 0, "(0 rows)\n", ""),
    "other modes": (f".mode csv\n{READ}", 0, "mode is csv\nname\nAda\nBo\nCy\n", ""),
    "parameters": (
        ".param who=Ada other=1\nquery near($who: String) { match { $a: Person { name: $who }  $a knows $b } return { $b.name as name } }",
        0,
        "$other = 1\n$who = Ada\nname\nBo\n(1 row)\n",
        "",
    ),
    "a change": (
        'insert Person { name: "Zoe" }\n.use main~1\nmatch { $p: Person } return { count($p) as n }',
        0,
        r"changed main: 1 node, 0 edges \(1 inserted\); commit \w{26}\nnow at main~1, commit \w{26}, read only: it is not a branch\nn\n3\n\(1 row\)\n",
        "",
    ),
    "a change that changes nothing": (
        'delete Person where name = "Nobody"', 0, "changed main: 0 nodes, 0 edges; nothing changed, no commit\n", ""
    ),
    "a change at a commit": (
        '.use main~0\ninsert Person { name: "Zoe" }',
        2,
        None,
        "error: 'main~0' is not a branch, so nothing can change there\nhint: .use BRANCH\n",
    ),
    "the first error ends it, with its line": (
        f"{READ}\n\nmatch {{ $p: Person }}\nreturn {{ $p.nme }}\n\n.help",
        1,
        "name\nAda\nBo\nCy\n(3 rows)\n",
        "error: <text>:4:13: [T6] Person has no property 'nme'\n  | return { $p.nme }\n  |             ^\n  = did you mean 'name'?\n",
    ),
    "a text that ends too early": (
        "\nmatch { $p: Person }", 1, "", "error: <text>:3:"
    ),
    "a command that there is not": (".nope", 2, "", "error: there is no command '.nope'\nhint: .help lists the commands\n"),
    "a command of the program": (".branch create review\n.use review\n.tag list", 0, None, None),
    "one that fails": (".use nowhere", 1, "", None),
    "a type": (".schema City", 0, None, ""),
    "a type that there is not": (".schema Town", 1, "", "error: the schema has no type 'Town'\nhint: .schema shows all of it\n"),
    "leaving": (".quit\n.nope", 0, "", ""),
    "leaving without a dot": ("exit\n.nope", 0, "", ""),
    "leaving with a semicolon": ("quit;\n.nope", 0, "", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_script(case: str, script: object) -> None:
    text, code, out, err = CASES[case]
    ran: Ran = script(text)  # type: ignore[operator]
    assert ran.code == code, ran.err
    if out is not None:
        assert ran.out == out or re.fullmatch(out, ran.out), ran.out
    if err is not None:
        assert ran.err == err or (err.endswith(":") and ran.err.startswith(err)), ran.err


def test_a_script_shows_json_when_asked(script: object) -> None:
    import json

    ran: Ran = script(READ, "--json")  # type: ignore[operator]
    assert [row["name"] for row in json.loads(ran.out)["rows"]] == ["Ada", "Bo", "Cy"]


def test_the_address_of_a_graph_opens_the_shell(run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMNIGRAPH_STORE")
    for address in ("people", "./people"):
        monkeypatch.setattr("sys.stdin", io.StringIO(READ))
        assert run_cli([address]).out == "name\nAda\nBo\nCy\n(3 rows)\n"
    assert run_cli(["pepole"]).err.startswith("error: no such command 'pepole'")


@pytest.fixture
def session(folder: Path) -> Session:
    graph = og.open("people")
    graph.branches.create("review")
    graph.tags.create("v1")
    return Session(graph, Settings(store="people"), Output(as_json=False, quiet=False), "main")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (".us", ["use"]),
        (".use r", ["review"]),
        (".use ", ["main", "review", "v1"]),
        (".mode js", ["json", "jsonl"]),
        (".schema P", ["Person"]),
        ("match { $p: Per", ["Person"]),
        ("match { $p: Person } return { $p.a", ["age"]),
        ("match { $p: Person  $p li", ["livesIn", "limit"]),
        ("match { $p: Person } ret", ["return"]),
        (".explain match { $p: Person } return { $p.n", ["name"]),
    ],
)
def test_what_is_suggested(session: Session, text: str, found: list[str]) -> None:
    asked = Suggestions(session).get_completions(Document(text), CompleteEvent(completion_requested=True))
    assert [each.text for each in asked] == found


def test_words_have_colours() -> None:
    shown = Colours().lex_document(Document('match { $p: Person { name: "x" } } // all'))(0)
    assert {style: text for style, text in shown if style} == {
        "class:keyword": "match",
        "class:variable": "$p",
        "class:type": "Person",
        "class:string": '"x"',
        "class:comment": "// all",
    }


TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """A program at a terminal of its own, whose screen is what it has written so far."""

    def __init__(self, arguments: list[str], *, rows: int = 24, columns: int = 80, **environment: str) -> None:
        self._main, its_end = pty.openpty()
        fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", TAKE_TERMINAL, *arguments],
            stdin=its_end,
            stdout=its_end,
            stderr=its_end,
            env={**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **environment},
            start_new_session=True,
        )
        os.close(its_end)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def read_until(self, pattern: str, patience_s: float = PATIENCE_S) -> str | None:
        """What was written up to a text that fits, without colours; None when nothing does in time."""
        end = time.monotonic() + patience_s
        while True:
            plain = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\r", "", self._seen)
            if found := re.search(pattern, plain):
                self._seen = plain[found.end() :]
                return plain[: found.end()]
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._main], [], [], left)[0]:
                return None
            try:
                self._seen += os.read(self._main, 65_536).decode(errors="replace")
            except OSError:  # it has ended
                return None

    def enter(self, text: str) -> None:
        """Type at the prompt, once it is there."""
        self.expect("people:main>")
        self.type(text)

    def expect(self, pattern: str) -> str:
        found = self.read_until(pattern)
        assert found is not None, self._seen
        return found

    def expect_left_editing(self) -> None:
        """Wait until a line was accepted: what the terminal was told for editing is taken back."""
        end = time.monotonic() + PATIENCE_S
        while "\x1b[?2004l" not in self._seen.rpartition("\x1b[?2004h")[2]:
            assert select.select([self._main], [], [], end - time.monotonic())[0], self._seen
            self._seen += os.read(self._main, 65_536).decode(errors="replace")

    def cancel(self, text: str) -> None:
        """Run something at the prompt, and end it by Ctrl-C. That empties the line, and the prompt is back, if the line was not
        quite taken yet; and it is lost if the terminal is not yet in its ordinary mode."""
        self.type(text + "\r")
        for _ in range(TRIES):
            self.expect_left_editing()
            self._seen = ""
            self.type("\x03")
            while (heard := self.read_until("cancelled|people:main>", PATIENCE_S / TRIES)) is None:
                self.type("\x03")
            if heard.endswith("cancelled"):
                return
            self.type(text + "\r")
        pytest.fail("Ctrl-C did not meet the query")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._main)


@contextmanager
def terminal(arguments: list[str], **options: object) -> Iterator[Terminal]:
    made = Terminal(arguments, **options)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()


ENDLESS = (
    "match { "
    + " ".join(f"${name}: Person" for name in "abcdefghijklmnopqrstuv")
    + "  "
    + " + ".join(f"$${name}.age".replace("$$", "$") for name in "abcdefghijklmnopqrstuv")
    + " = -1 } return { count($a) as n }"
)


def test_a_session_at_a_terminal(folder: Path, tmp_path: Path) -> None:
    """Several lines, a change with its commit, a page and the next, Ctrl-C that ends the query and not the shell, history."""
    with og.open("people").transaction() as tx:
        for number in range(40):
            tx.insert("Person", name=f"p{number:02}", age=number)
    home = tmp_path / "home"
    with terminal([OMNIGRAPH, "people"], OMNIGRAPH_HOME=str(home)) as shell:
        shell.enter("match { $p: Person }\rreturn { $p.name as name }\rorder { name } limit 2\r\r")
        shell.expect(r"name\s+Ada\s+Bo\s+\(2 rows\)")
        shell.enter('insert Person { name: "Zoe" }\r')
        shell.expect(r"changed main: 1 node, 0 edges \(1 inserted\); commit \w{26}")
        shell.enter(READ + "\r")
        first = shell.expect(r"\(44 rows, 20 shown; \.more shows the next\)")
        assert "p15" in first
        assert "p16" not in first
        shell.enter(".more\r")
        assert "p16" in shell.expect(r"\(21 to 40 of 44 rows\)")
        shell.enter(".more\r")
        assert "p39" in shell.expect(r"\(41 to 44 of 44 rows\)")
        shell.expect("people:main>")
        shell.cancel(ENDLESS)
        shell.enter(".timing on\r")
        shell.expect(r"timing is on")
        shell.enter("match { $p: Person } return { count($p) as n }\r")
        shell.expect(r"44\s+\(1 row, [\d.]+ m?s\)")
        shell.enter("\x04")
        shell.read_until("nothing", PATIENCE_S)  # until it has ended
        assert shell.process.wait(PATIENCE_S) == 0, shell._seen
    kept = home / "history"
    assert 'insert Person { name: "Zoe" }' in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0
