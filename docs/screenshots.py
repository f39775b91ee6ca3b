"""Screenshots of a report for docs/images: the first screen, wide and on a telephone, light and dark; and some figures.

    python docs/screenshots.py report.html docs/images
    python docs/screenshots.py report.html docs/images --figures gates,attention-maps

With `--figures` each of these is written by itself, `NAME-WIDTH-SCHEME.png`, once its chart is live.
"""

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

SIZES = {1440: 900, 390: 844}
SCHEMES = ("light", "dark")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def shots(browser: Browser, report: Path, out: Path, figures: list[str]) -> None:
    """Write the pictures of one report."""
    for width, height in SIZES.items():
        for scheme in SCHEMES:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce")
            page.goto(report.resolve().as_uri())
            if not figures:
                page.screenshot(path=out / f"report-{width}-{scheme}.png")
            for name in figures:
                figure = page.locator(f"#figure-{name}")
                figure.scroll_into_view_if_needed()
                figure.locator(".vega-embed svg").wait_for()
                figure.screenshot(path=out / f"{name}-{width}-{scheme}.png")
            page.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--figures", default="", help="names of figures, with commas between them")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=next(path for name in BROWSERS if (path := shutil.which(name))), args=["--no-sandbox"]
        )
        shots(opened, given.report, given.out, [name for name in given.figures.split(",") if name])
        opened.close()
