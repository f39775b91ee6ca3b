"""Screenshots for docs/images: of a report, the first screen and some figures; of the explorer, each view and a film.

    python docs/screenshots.py report.html docs/images
    python docs/screenshots.py report.html docs/images --figures gates,attention-maps
    python docs/screenshots.py 'http://127.0.0.1:8080/?token=…' docs/images

A report is taken wide and on a telephone, light and dark. With `--figures` each of these is written by itself,
`NAME-WIDTH-SCHEME.png`, once its chart is live. An address is that of `conoscope explore BEFORE AFTER --port 8080`: results of
an encoder and of the same encoder fine-tuned on bistro.
"""

import argparse
import io
import shutil
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlencode

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

SIZES = {1440: 900, 390: 844}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WEBGL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
TEXT = "the soup was not good, but the waiter was kind."
TYPED = "the soup was good."
VIEWS: dict[str, dict[str, object]] = {
    "head": {"tab": "head", "model": 1, "layer": 1, "head": 3},
    "words": {"tab": "words", "model": 1, "method": "integrated_gradients", "word": 3},
    "heads": {"tab": "heads", "model": 1, "layer": 1, "head": 3},
    "cones": {"tab": "cones", "modelB": 1, "show": "diff"},
    "stream": {"tab": "stream", "model": 1, "layer": 6, "head": 1},
}
"""What the address of the explorer says for each view: its results are of the encoder before (0) and after (1)."""
FILM = 960, 600
SETTLED = 1200
"""Milliseconds in which a view has drawn what it was asked for, after the model is warm."""


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


def views(browser: Browser, address: str, out: Path) -> None:
    """Write a picture of each view of the explorer; cones are seen best on a dark ground."""
    for name, state in VIEWS.items():
        page = browser.new_page(
            viewport={"width": 1440, "height": 900}, color_scheme="dark" if name == "cones" else "light", reduced_motion="reduce"
        )
        page.goto(_at(address, {"text": TEXT, **state}))
        _settle(page, 4 * SETTLED)
        _few_colours(page.screenshot()).save(out / f"explorer-{name}.png", optimize=True)
        page.close()


def film(browser: Browser, address: str, out: Path) -> None:
    """Write a short film: a text is typed and the answer moves, then all heads, then the cones layer by layer."""
    page = browser.new_page(viewport=dict(zip(("width", "height"), FILM, strict=True)), reduced_motion="reduce")  # type: ignore[arg-type]
    page.goto(_at(address, {**VIEWS["head"], "text": TYPED}))
    _settle(page, 2 * SETTLED)
    frames = [(_frame(page), 1200)]

    def take(milliseconds: int) -> None:
        _settle(page, SETTLED)
        frames.append((_frame(page), milliseconds))

    text = page.locator("textarea").first
    for typed in ("the soup was not", "the soup was not good.", TEXT[:27] + " the waiter", TEXT):
        text.fill(typed)
        take(900)
    page.get_by_role("tab", name="Heads", exact=True).click()
    take(1600)
    page.get_by_role("tab", name="Cones", exact=True).click()
    layer = page.locator("main input[type=range]").first
    layer.press("Home")
    take(900)
    for _ in range(6):
        layer.press("ArrowRight")
        take(700)
    take(1600)
    page.close()
    pictures, times = [frame for frame, _ in frames], [shown for _, shown in frames]
    pictures[0].save(
        out / "explorer.webp", save_all=True, append_images=pictures[1:], duration=times, loop=0, quality=70, method=6
    )


def _at(address: str, state: dict[str, object]) -> str:
    return f"{address}#{urlencode(state, quote_via=quote)}"


def _settle(page: Page, milliseconds: int) -> None:
    page.locator("main").first.wait_for(timeout=60_000)
    page.locator(".notes .progress").wait_for(state="detached", timeout=300_000)
    page.wait_for_timeout(milliseconds)


def _frame(page: Page) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def _few_colours(png: bytes) -> Image.Image:
    """The picture with a palette, which is a third of its size."""
    return Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("shown", metavar="REPORT|ADDRESS", help="a report, or the address that conoscope explore prints")
    parser.add_argument("out", type=Path)
    parser.add_argument("--figures", default="", help="names of figures of the report, with commas between them")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=next(path for name in BROWSERS if (path := shutil.which(name))), args=["--no-sandbox", *WEBGL]
        )
        if given.shown.startswith("http"):
            views(opened, given.shown, given.out)
            film(opened, given.shown, given.out)
        else:
            shots(opened, Path(given.shown), given.out, [name for name in given.figures.split(",") if name])
        opened.close()
