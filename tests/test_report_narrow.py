"""Every figure of a report on a telephone: all of it is there, beside nothing that is out of sight."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from playwright.sync_api import Browser, Page, expect
from transformers import BertConfig, BertForSequenceClassification

from conoscope.figures import FIGURES
from conoscope.gathering import together
from conoscope.loading import LoadedModel, load_model
from conoscope.reporting.page import page as page_of
from drawings import GUESS, every_table
from reports import run

WIDTHS = (1440, 390)
SMALLEST = 8.5
"""Pixels of the smallest letters."""
LONG = "a name of a run that is longer than a telephone is wide, by far"
CASES = ["a case of a claim that is told in more words than fit", "another"]
SEEN = """(figure) => {
  const svg = figure.querySelector(".vega-embed svg"), box = figure.querySelector(".scroll");
  const shown = svg.getBoundingClientRect(), room = box.getBoundingClientRect();
  const scale = shown.width / Number(svg.getAttribute("width"));
  const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent);
  const legends = [...svg.querySelectorAll(".role-legend")].map((legend) => legend.getBoundingClientRect());
  const labels = [...svg.querySelectorAll(".role-legend-label text")].map((text) => text.textContent);
  const reading = [...svg.querySelectorAll(".role-legend")].map((legend) =>
    [...legend.querySelectorAll(".role-legend-label text")]
      .map((text) => [text.getBoundingClientRect(), text.textContent])
      .sort(([one], [other]) => (Math.abs(one.top - other.top) > 6 ? one.top - other.top : one.left - other.left))
      .map(([, text]) => text.replaceAll(" ", "")));
  const inSight = texts.filter((text) => text.textContent.trim() && Number(getComputedStyle(text).opacity) > 0);
  const boxes = inSight.map((text) => [text.textContent, text.getBoundingClientRect()]);
  const overprinted = boxes.flatMap(([one, a], place) => boxes.slice(place + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1)
    .filter(([, b]) => Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4 * scale)
    .map(([other]) => [one, other]));
  return {
    marks: [...svg.querySelectorAll(".role-mark")].flatMap((group) => [...group.querySelectorAll("path,line,image")]).length,
    panels: svg.querySelectorAll(".role-scope").length,
    headers: [...svg.querySelectorAll(".role-column-header text, .role-title text")].map((text) => text.textContent).join(""),
    labels: [...new Set(labels)].sort(),
    reading,
    overprinted: overprinted.slice(0, 8),
    smallest: Math.min(...texts.map((text) => parseFloat(getComputedStyle(text).fontSize) * scale)),
    inside: box.scrollWidth <= box.clientWidth && shown.right <= room.right + 1,
    legends: legends.every((legend) => legend.left >= room.left - 1 && legend.right <= room.right + 1),
  };
}"""


@pytest.fixture(scope="module", params=[1, 2], ids=["one run", "two runs"])
def written(request: pytest.FixtureRequest, pure: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of every figure, of a model that is as deep as MiniLM and has as many heads, and names that are long."""
    config = BertConfig(
        vocab_size=len(pure.tokenizer), hidden_size=48, num_hidden_layers=6, num_attention_heads=12, intermediate_size=96,
        id2label={0: "negative", 1: "positive"}, label2id={"negative": 0, "positive": 1},
    )  # fmt: skip
    torch.manual_seed(0)
    tables = every_table(load_model(BertForSequenceClassification(config), pure.tokenizer))
    tables["study.claims"] = tables["study.claims"].assign(case=CASES)
    runs = [run(name, **tables) for name in ("all-MiniLM-L6-v2", LONG)[: request.param]]
    path = tmp_path_factory.mktemp("narrow") / "report.html"
    path.write_text(page_of(runs, _trained(together(runs)), []), encoding="utf-8")
    return path


def _trained(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """With what the sweep of penalties needs."""
    penalties = [0.1 * place for place in range(len(tables["runs"]))]
    return {**tables, "runs": tables["runs"].assign(entropy_penalty=penalties)}


@pytest.fixture
def pages(browser: Browser, written: Path) -> Iterator[dict[int, Page]]:
    """The page at both widths; what it says on the console is in `told`, which must stay empty."""
    told: list[str] = []
    found: dict[int, Page] = {}
    for width in WIDTHS:
        found[width] = browser.new_page(viewport={"width": width, "height": 844}, reduced_motion="reduce")
        found[width].on("console", lambda message: told.append(message.text))
        found[width].on("pageerror", lambda error: told.append(str(error)))
        found[width].goto(written.as_uri())
    yield found
    for shown in found.values():
        shown.close()
    assert [one for one in told if not one.startswith(GUESS)] == []


def seen(shown: Page, figure: str) -> dict[str, Any]:
    """What is to be seen of a figure, once it is live."""
    there = shown.locator(f"#{figure}")
    there.scroll_into_view_if_needed()
    expect(there.locator(".vega-embed svg")).to_be_visible(timeout=30_000)
    found: dict[str, Any] = there.evaluate(SEEN)
    return found


def test_every_figure_keeps_its_marks_panels_and_legend_at_the_width_of_a_telephone(pages: dict[int, Page]) -> None:
    names = [str(figure.get_attribute("id")) for figure in pages[390].locator("figure").all()]
    assert {name.removeprefix("figure-") for name in names} >= set(FIGURES) - {"penalty-sweep"}
    lost = {}
    for name in names:
        wide, narrow = (seen(pages[width], name) for width in WIDTHS)
        same = ["labels", "marks", *(["panels", "headers"] if name != "figure-words" else [])]
        wrong = {key: (wide[key], narrow[key]) for key in same if _plain(wide[key]) != _plain(narrow[key])}
        wrong |= {key: narrow[key] for key in ("inside", "legends") if not narrow[key]}
        wrong |= {f"over {width}": at["overprinted"] for width, at in ((1440, wide), (390, narrow)) if at["overprinted"]}
        wrong |= {"reading": (wide["reading"], narrow["reading"])} if wide["reading"] != narrow["reading"] else {}
        wrong |= {"smallest": narrow["smallest"]} if narrow["smallest"] < SMALLEST else {}
        if wrong:
            lost[name] = wrong
    assert lost == {}
    assert pages[390].evaluate("document.scrollingElement.scrollWidth") <= 390


def _plain(found: Any) -> Any:
    """Titles and labels are the same wherever their lines are broken."""
    if isinstance(found, list):
        return sorted(text.replace(" ", "") for text in found)
    return found.replace(" ", "") if isinstance(found, str) else found


def test_a_figure_is_made_again_when_the_page_becomes_wider_or_narrower(pages: dict[int, Page]) -> None:
    shown = pages[390]
    seen(shown, "figure-sim")
    drawing = shown.locator("#figure-sim .vega-embed svg")
    narrow = str(drawing.get_attribute("width"))
    shown.set_viewport_size({"width": 1000, "height": 844})
    expect(drawing).not_to_have_attribute("width", narrow)
    assert float(drawing.get_attribute("width") or 0) > float(narrow) + 100
    shown.set_viewport_size({"width": 390, "height": 844})
    expect(drawing).to_have_attribute("width", narrow)
    assert drawing.count() == 1


def test_a_page_that_has_no_width_for_a_moment_keeps_its_figures_and_the_last_width_wins(pages: dict[int, Page]) -> None:
    shown = pages[1440]
    wide = seen(shown, "figure-attention-maps")
    for widths in ((1, 1440), (390, 1, 1440), (390, 1440)):
        for width in widths:
            shown.set_viewport_size({"width": width, "height": 844})
        shown.wait_for_timeout(1500)
        assert seen(shown, "figure-attention-maps") == wide, widths
