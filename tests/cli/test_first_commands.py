"""The first commands ever, on machines that have never seen OmniGraph: the README's five minutes, then the demo, in an environment
with nothing but PATH and HOME."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from docs.blocks import blocks_of

ROOT = Path(__file__).parents[2]
NOBODY = 65534
SYSTEM = "/usr/bin:/bin"
DEMO = "omnigraph demo --small"

needs_root = pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("setpriv") is None, reason="only root may be another user"
)


@dataclass(frozen=True)
class Newcomer:
    """Somebody with a home, a folder of files to work in, and programs."""

    home: Path
    work: Path
    programs: Path
    python: str = sys.executable
    is_root: bool = True

    def run(self, command: list[str]) -> str:
        # Another user may read this clone wherever it is, and write nothing.
        rights = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        other = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *rights]
        ran = subprocess.run(
            command if self.is_root else [*other, *command],
            cwd=self.work,
            env={"PATH": f"{self.programs}:{SYSTEM}", "HOME": str(self.home), "TMPDIR": str(self.work)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
        assert "Traceback" not in ran.stderr
        return ran.stdout

    def follow_the_readme(self) -> None:
        for block in blocks_of(ROOT / "README.md"):
            if block.file is not None:
                (self.work / block.file).write_text(block.text, encoding="utf-8")
            elif block.language == "sh":
                self.run(["bash", "-euc", block.text])
            elif block.language == "python":
                assert self.run([self.python, "-c", block.text]) == "[{'people': 4}]\n[{'people': 3}]\n"

    def see_the_demo(self) -> None:
        assert "Done in" in self.run(["bash", "-euc", DEMO])


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder that everybody may write, below folders that everybody may enter."""
    folder = tmp_path / "work"
    folder.mkdir()
    folder.chmod(0o777)
    for parent in folder.parents[:3]:
        parent.chmod(0o755)
    return folder


def test_in_an_empty_home(tmp_path: Path, work: Path) -> None:
    homes = [tmp_path / "home", tmp_path / "another"]
    for home in homes:
        home.mkdir()
    programs = Path(sys.executable).parent
    Newcomer(homes[0], work, programs).follow_the_readme()
    Newcomer(homes[1], work, programs).see_the_demo()
    assert [*homes[0].iterdir(), *homes[1].iterdir()] == []


@needs_root
def test_as_a_user_whose_home_cannot_be_written(tmp_path: Path, work: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    somebody = Newcomer(home, work, Path(sys.executable).parent, is_root=False)
    somebody.follow_the_readme()
    somebody.see_the_demo()


def test_with_a_home_that_is_no_folder(tmp_path: Path, work: Path) -> None:
    (tmp_path / "home").write_text("")
    Newcomer(tmp_path / "home", work, Path(sys.executable).parent).see_the_demo()


def wheel(folder: Path) -> Path:
    """The package as it is installed, without its sources."""
    source = folder / "source"
    source.mkdir()
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copytree(ROOT / "docs", source / "docs", ignore=shutil.ignore_patterns("images"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "-w", str(folder), str(source)], check=True)
    (made,) = folder.glob("*.whl")
    return made


@needs_root
def test_from_a_wheel_as_another_user(tmp_path: Path, work: Path) -> None:
    package = wheel(tmp_path)
    with zipfile.ZipFile(package) as content:
        packed = set(content.namelist())
        content.extractall(tmp_path / "site")
    compileall.compile_dir(tmp_path / "site", quiet=2)  # As pip does: the other user cannot.
    files = [path for path in (ROOT / "src" / "omnigraph").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {str(path.relative_to(ROOT / "src")) for path in files} <= packed
    assert {f"omnigraph/guides/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= packed
    programs = tmp_path / "bin"
    programs.mkdir()
    python = programs / "python"
    # The wheel comes before the clone that this environment has.
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "site"} exec {sys.executable} "$@"\n')
    (programs / "omnigraph").write_text(f'#!/bin/sh\nexec {python} -m omnigraph.cli.main "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    home = work / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    somebody = Newcomer(home, work, programs, str(python), is_root=False)
    place = somebody.run([str(python), "-c", "import omnigraph; print(omnigraph.__file__)"])
    assert place.startswith(str(tmp_path / "site"))
    assert somebody.run(["omnigraph", "skill"]).startswith("---\nname: omnigraph\n")
    somebody.follow_the_readme()
    somebody.see_the_demo()


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_on_other_versions_of_python(version: str, tmp_path: Path, work: Path) -> None:
    """Where there is an environment with the packages that OmniGraph needs."""
    python = shutil.which(f"python{version}")
    needs = f"import lance, pyarrow, duckdb, sqlglot, click; assert __import__('sys').version.startswith('{version}')"
    if python is None or subprocess.run([python, "-c", needs], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no python{version} on PATH with the packages that OmniGraph needs")
    programs = tmp_path / "bin"
    programs.mkdir()
    own = programs / "python"
    own.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {python} "$@"\n')
    (programs / "omnigraph").write_text(f'#!/bin/sh\nexec {own} -m omnigraph.cli.main "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    Newcomer(home, work, programs, str(own)).follow_the_readme()
