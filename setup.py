"""The package carries the guides of docs/; everything else about it is in pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithGuides(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # A clone reads docs/ itself.
            folder = Path(self.build_lib, "omnigraph", "guides")
            self.mkpath(str(folder))
            docs = Path(__file__).parent / "docs"
            examples = (docs / "reference" / name for name in ("ldbc.md", "queries-by-example.md"))
            for page in (*sorted(docs.glob("*.md")), *examples):
                self.copy_file(str(page), str(folder / page.name))


setup(cmdclass={"build_py": BuildWithGuides})
