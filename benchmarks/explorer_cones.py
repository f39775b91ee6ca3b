"""How many frames a second the explorer's cones draw: made-up examples, Chromium with WebGL computed in software, and in 2D.

    python benchmarks/explorer_cones.py [--points 2000 10000] [--seconds 3] [--runs 5]

Needs Node, playwright and Chromium. The page is that of `npm run mock`. The sphere is turned before every frame, and one pixel of
each is read back, so that what the graphics process has to do is waited for. `layers` is the same while the points move between
layers. The slowest of the runs is printed beside the median.
"""

import argparse
import contextlib
import http.server
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parents[1] / "explorer"
SOFTWARE = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
WITHOUT = ["--no-sandbox", "--disable-gpu", "--disable-3d-apis"]
PAGE = b'<!doctype html><link rel="stylesheet" href="/explorer.css"><div id="explorer"></div><script src="/explorer.js"></script>'
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:"

# Draws by turning the sphere, and reads one pixel of each frame, until the time is over.
TURNING = """
async ([seconds, moving]) => {
  const box = document.querySelector(".sphere-box");
  const slider = document.querySelector('.cones-controls input[type="range"]');
  const canvas = box.querySelector("canvas");
  const gl = canvas.getContext("webgl2");
  const pixel = new Uint8Array(4);
  const key = new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true, cancelable: true});
  let layer = Number(slider.max);
  const first = box.painter.frames;
  const start = performance.now();
  while (performance.now() - start < seconds * 1000) {
    box.dispatchEvent(key);
    if (moving && box.painter.frames % 20 === 0) {
      layer = layer === 0 ? Number(slider.max) : layer - 1;
      slider.value = String(layer);
      slider.dispatchEvent(new Event("input", {bubbles: true}));
    }
    await new Promise(requestAnimationFrame);
    if (gl) gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
  }
  return (box.painter.frames - first) / (performance.now() - start) * 1000;
}
"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the built page under the policy of the explorer."""

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(PAGE)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which a folder is served."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: Handler(*given, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def rates(page: Page, address: str, points: int, options: argparse.Namespace, moving: bool) -> list[float]:
    """Frames a second of each run."""
    page.goto(f"{address}/?points={points}#tab=cones&text=the soup was not good")
    page.wait_for_selector(".sphere-box")
    page.evaluate(TURNING, [0.5, moving])
    return [page.evaluate(TURNING, [options.seconds, moving]) for _ in range(options.runs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[2000, 10000])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    options = parser.parse_args()
    subprocess.run(["npm", "run", "--silent", "mock"], cwd=FOLDER, check=True, stdout=sys.stderr)
    with served(FOLDER / "shots" / "site") as address, sync_playwright() as playwright:
        for name, flags in {"WebGL in software": SOFTWARE, "2D": WITHOUT}.items():
            browser = playwright.chromium.launch(executable_path=options.browser, args=flags)
            page = browser.new_page(viewport={"width": 1440, "height": 1000})
            for points in options.points:
                for moving in (False, True):
                    found = rates(page, address, points, options, moving)
                    what = "layers" if moving else "turning"
                    median = statistics.median(found)
                    print(f"{name:18} {points:6} points  {what:8} {median:5.1f} frames a second, slowest run {min(found):5.1f}")
            browser.close()


if __name__ == "__main__":
    main()
