"""The page of screens: what a terminal of 80 and of 140 columns shows, taken from a real one (tmux).

    python tests/docs/screens.py          writes docs/screens.md; needs tmux

Ids, times and the folder differ from run to run: the page has others of the same length in their place. `test_screens.py` runs
the same commands without a terminal and compares.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import omnigraph as og

PAGE = Path(__file__).parents[2] / "docs" / "screens.md"
WIDTHS = (80, 140)
HOME = "/home/ada"
PATIENCE_S = 180
ROWS = 50

SCHEMA = """\
// People and where they live.
node Person {
  name: String @key
  age: I32?
  tier: enum(free, pro) @index
}
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City @card(0..1)
"""
PEOPLE = [("Ada", 36), ("Bo", 27), ("Cy", 61), ("Dee", 54), ("Eve", 44), ("Finn", 19)]
KNOWS = [("Ada", "Bo"), ("Ada", "Cy"), ("Bo", "Dee"), ("Cy", "Eve"), ("Eve", "Finn")]

COMMANDS = {
    "Where am I": "omnigraph status ./people",
    "What happened": "omnigraph log ./people --graph",
    "One commit": "omnigraph show review --store ./people",
    "What is different": "omnigraph diff main review --stat --store ./people",
    "Conflicts": "omnigraph branch merge review --store ./people",
    "How a query runs": "omnigraph query friends --query people.gq --param who=Ada --store ./people --explain",
}
QUERIES = """\
query friends($who: String) {
  match { $p: Person { name: $who }  $p knows{1,2} $q  $q livesIn $c }
  return { $q.name as friend, $q.age as age, $c.name as city }
  order { friend }
}
"""
TYPED = (
    ("match { $p: Person  $p.age > 30 }", "..."),
    ("return { $p.name as name, $p.age as age, $p.tier as tier }", "..."),
    ("order { age desc } limit 3", "..."),
    ("", "(3 rows)"),
    ('insert Person { name: "Gus", age: 33, tier: "free" }', "commit 01"),
    (".use review", "now at review"),
    (".sql SELECT tier, count(*) AS people FROM Person GROUP BY ALL ORDER BY ALL", "(2 rows)"),
    (".schema City", "@card(0..1)"),
)
"""What is typed in the shell, and what then shows that it was run."""
SHELL = "The shell"


def make_graph(folder: Path) -> None:
    """A graph with a review branch that contradicts main, a merged branch and a tag."""
    graph = og.init(folder / "people", SCHEMA, actor="ada", durability="process")
    (folder / "people.gq").write_text(QUERIES)
    with graph.transaction(actor="ada", message="first people") as tx:
        tx.insert("City", name="Rome")
        tx.insert("City", name="Oslo")
        for place, (name, age) in enumerate(PEOPLE):
            tx.insert("Person", name=name, age=age, tier="pro" if place % 3 == 0 else "free")
            tx.insert("LivesIn", **{"from": name, "to": ("Rome", "Oslo")[place % 2]})
        for place, (source, target) in enumerate(KNOWS):
            tx.insert("Knows", **{"from": source, "to": target, "since": dt.date(2020 + place, 5, 1)})
    graph.tags.create("v1")
    graph.branches.create("import")
    graph.mutate('query q() { insert City { name: "Bern" } }', branch="import", actor="bo", message="more cities")
    graph.branches.merge("import", actor="ada")
    graph.branches.create("review")
    graph.mutate(
        'query q() { update Person set { age: 37, tier: "free" } where name = "Ada"  delete Person where name = "Finn" }',
        branch="review",
        actor="bo",
        message="corrections",
    )
    graph.mutate(
        'query q() { update Person set { age: 38 } where name = "Ada"  insert Person { name: "Hal", tier: "pro" } }',
        actor="ada",
        message="a birthday",
    )


def plain(text: str, folder: Path) -> str:
    """Without what differs from run to run."""
    names: dict[str, str] = {}
    text = text.replace(str(folder.resolve()), HOME).replace(str(folder), HOME)
    text = re.sub(
        r"\b01[0-9A-HJKMNP-TV-Z]{24}\b",
        lambda found: names.setdefault(found[0], f"01M7KZ{len(names) + 1:020}"),
        text,
    )
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-11-17 09:00:00", text)
    return re.sub(r"just now|\d minutes? ago", "just now", text)


class Pane:
    """A terminal of some width, in tmux, with a server of its own."""

    def __init__(self, folder: Path, width: int) -> None:
        self._tmux = ["tmux", "-L", f"screens-{os.getpid()}-{width}", "-f", "/dev/null"]
        binaries = Path(sys.executable).parent
        shell = ["env", "PS1=$ ", "TERM=xterm", f"PATH={binaries}:{os.environ['PATH']}", "OMNIGRAPH_HOME=no-config"]
        size = ["-x", str(width), "-y", str(ROWS)]
        self.run("new-session", "-d", *size, "-c", str(folder), *shell, "bash", "--norc", "--noprofile")

    def run(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], check=True, capture_output=True, text=True).stdout

    def screen(self) -> str:
        return self.run("capture-pane", "-p").rstrip()

    def type(self, text: str) -> None:
        self.run("send-keys", "-l", text)
        self.run("send-keys", "Enter")

    def wait_for(self, text: str, times: int = 1) -> str:
        """Until the screen has a text often enough; nothing says by itself that a terminal shows something."""
        end = time.monotonic() + PATIENCE_S
        while (screen := self.screen()).count(text) < times:
            if time.monotonic() > end:
                raise TimeoutError(screen)
            time.sleep(0.05)
        return screen

    def wait_for_prompt(self) -> str:
        """Until the last line is a prompt again."""
        end = time.monotonic() + PATIENCE_S
        while (screen := self.screen()).rpartition("\n")[2] != "$":
            if time.monotonic() > end:
                raise TimeoutError(screen)
            time.sleep(0.05)
        return screen

    def close(self) -> None:
        self.run("kill-server")


def taken(folder: Path, width: int) -> dict[str, str]:
    """The screen of every command, by title."""
    pane = Pane(folder, width)
    try:
        found = {}
        pane.wait_for_prompt()
        for title, command in COMMANDS.items():
            pane.type(f"clear; {command}; tmux wait-for -S done-{width}")
            pane.run("wait-for", f"done-{width}")
            found[title] = f"$ {command}\n{pane.wait_for_prompt().removesuffix('$').rstrip()}"
        pane.type("clear; omnigraph ./people")
        pane.wait_for("people:main>")
        for text, shown in TYPED:
            before = pane.screen().count(shown)
            pane.type(text)
            pane.wait_for(shown, before + 1)
        body = pane.wait_for("people:review>", 3)
        found[SHELL] = "$ omnigraph ./people\n" + body.rpartition("\n")[0]
        pane.run("send-keys", "C-d")
        return found
    finally:
        pane.close()


def page() -> str:
    parts = [
        "# Screens\n\nWhat a terminal shows, at 80 and at 140 columns. `tests/docs/screens.py` captures these from a real terminal (tmux), with fixed ids,\n"
        "times and folder. A test runs the commands again and compares.\n"
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_graph(folder)
        screens = {}
        for width in WIDTHS:
            place = folder / str(width)
            place.mkdir()
            subprocess.run(["cp", "-r", folder / "people", folder / "people.gq", place], check=True)
            screens[width] = {title: plain(text, place) for title, text in taken(place, width).items()}
    for title in (SHELL, *COMMANDS):
        parts.append(f"\n## {title}\n")
        for width in WIDTHS:
            lines = "\n".join(line.rstrip() for line in screens[width][title].splitlines())
            parts.append(f"\n{width} columns:\n\n```text\n{lines}\n```\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
