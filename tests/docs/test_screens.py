"""The page of screens shows what the commands print now."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from docs import screens
from omnigraph.cli.main import run


def blocks() -> dict[tuple[str, int], list[str]]:
    """The lines of each screen, by title and width."""
    text = screens.PAGE.read_text(encoding="utf-8")
    found = {}
    for title, section in re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL):
        for width, body in re.findall(r"^(\d+) columns:\n\n```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
            found[title, int(width)] = body.splitlines()
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("screens")
    screens.make_graph(made)
    return made


def words(lines: list[str]) -> str:
    """Without line ends, which a terminal puts where it likes."""
    return re.sub(r"\s+", "", "".join(lines))


def test_every_screen_is_there() -> None:
    assert set(blocks()) == {(title, width) for title in (screens.SHELL, *screens.COMMANDS) for width in screens.WIDTHS}


@pytest.mark.parametrize("width", screens.WIDTHS)
def test_commands_print_what_the_page_shows(
    folder: Path, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("OMNIGRAPH_HOME", "no-config")
    page = blocks()
    for title, command in screens.COMMANDS.items():
        capsys.readouterr()
        run(command.split()[1:])
        printed = capsys.readouterr()
        shown = page[title, width]
        assert shown[0] == f"$ {command}"
        now = screens.plain(printed.err + printed.out if title == "Conflicts" else printed.out, folder).splitlines()
        if title == "Conflicts":  # both streams meet on a terminal
            assert sorted(words(now)) == sorted(words(shown[1:])), title
            continue
        if any(line.endswith("…") for line in shown):  # cut to the terminal
            pairs = list(zip(shown[1:], now, strict=True))
            assert all(new.startswith(old.removesuffix("…")) for old, new in pairs), title
        else:
            assert words(now) == words(shown[1:]), title


@pytest.mark.parametrize("width", screens.WIDTHS)
def test_the_shell_prints_what_the_page_shows(
    folder: Path, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    screens.make_graph(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("OMNIGRAPH_HOME", "no-config")
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{text}\n" for text, _ in screens.TYPED)))
    assert run(["./people"]) == 0
    shown = [line for line in blocks()[screens.SHELL, width][2:] if not re.match(r"people:\w+>|\s{9,}", line)]
    assert screens.plain(capsys.readouterr().out, tmp_path).splitlines() == shown
