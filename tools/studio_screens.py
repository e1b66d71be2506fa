"""Makes the pictures of docs/studio.md: every view, light and dark, wide and narrow. Needs Chromium, and pngquant if it is there.

.venv/bin/python tools/studio_screens.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import sync_playwright  # noqa: E402  # after the path is set
from serving import Fixed, tokens  # noqa: E402
from studio_browser import FLAGS, TOKEN, Watched, chromium_path, context_of, site_of  # noqa: E402
from studio_graphs import QUERIES, make_demo  # noqa: E402

QUERY = (
    "query near($who: String) {\n  match { $a: Person { name: $who }  $a knows{1,2} $b }\n"
    "  return { $b.name as name, $b.role as role }\n  order { name }\n}\n"
)
ENCODED = QUERY.replace("%", "%25").replace("&", "%26").replace("\n", "%0A").replace(" ", "+").replace("#", "%23")
VIEWS = {
    "overview": ("overview", "li >> text=take the seventh city"),
    "schema": ("schema?type=Person", "aside >> text=Rules"),
    "browse": ("browse/Person?filter=age.gt:30&order=age&row=Ada+Lindqvist", "[data-row='0'] >> text=Moreau"),
    "explore": ("explore?node=Person:Ada+Lindqvist&node=Person:Dee+Lindqvist", "aside >> text=WorksAt >> nth=0"),
    "query": (f"query?q={ENCODED}&params=%7B%22who%22%3A%22Ada+Lindqvist%22%7D", "[role=gridcell] >> nth=0"),
    "history": ("history", "text=take the seventh city"),
    "diff": ("diff/spring/main?tab=picture&sel=Person:Ada+Lindqvist", "aside >> text=engineer"),
    "merge": ("merge/review/main", "text=3 conflicts, 0 decided"),
    "loads": ("loads", "text=people of the spring survey"),
    "refs": ("refs", "td >> text=import/hr"),
    "health": ("health", "text=Space by type"),
}
SIZES = {"": (1280, 800), "-narrow": (390, 844)}


def main() -> None:
    target = ROOT / "docs" / "images" / "studio"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium") or chromium_path(), args=FLAGS)
        source = Fixed({"people": make_demo(Path(folder) / "people")}, (tokens(ada=TOKEN),), queries=QUERIES)
        with site_of(source) as site:
            for theme in ("light", "dark"):
                for suffix, (width, height) in SIZES.items():
                    viewport = {"width": width, "height": height}
                    with context_of(browser, viewport=viewport, color_scheme=theme) as context:
                        watched = Watched(context.new_page())
                        for name, (place, expected) in VIEWS.items():
                            watched.open(site, f"/people/{place}")
                            watched.page.wait_for_selector(expected)
                            if name == "merge":
                                watched.page.keyboard.press("2")
                            watched.page.wait_for_function("() => !document.querySelector('.skeleton')")
                            watched.page.wait_for_timeout(700)
                            watched.page.screenshot(path=target / f"{name}-{theme}{suffix}.png")
                        assert watched.problems == [], watched.problems
        browser.close()
    for image in sorted(target.glob("*.png")):
        if shutil.which("pngquant"):
            subprocess.run(["pngquant", "--force", "--ext", ".png", "--speed", "1", "64", str(image)], check=True)


if __name__ == "__main__":
    main()
