"""The report in a browser: alive and without a script, in the light and in the dark, wide, narrow and on paper."""

import io
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pytest
from playwright.sync_api import Browser, Page, expect

from conoscope.common.terminal import printable
from conoscope.figures import FIGURES
from conoscope.reporting.findings import Finding
from conoscope.reporting.gathering import JoinedTables
from conoscope.reporting.page import page as page_of
from reports import HOSTILE, clipped, run, sim, words

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two runs with hostile texts and names, and two figures that clip, each in its own way."""
    runs = [run("one", sim=sim(), **{"self_sim.words": words()}), run(HOSTILE[0], sim=sim(4))]
    with pytest.MonkeyPatch.context() as patch:
        for number in (1, 2):
            patch.setitem(FIGURES, f"clipped-{number}", clipped(number))
        text = page_of(runs, JoinedTables(runs), [Finding("SIM is 0.5.", "sim")])
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Browser, written: Path) -> Iterator[Open]:
    """Opens the page; what it asks for, says on the console or throws is in `told`, which must stay empty."""
    contexts: list[Any] = []
    told: list[str] = []

    def open_page(**options: Any) -> Page:
        contexts.append(browser.new_context(reduced_motion="reduce", **options))
        shown = contexts[-1].new_page()
        shown.on("request", lambda request: told.append(request.url) if request.url != written.as_uri() else None)
        shown.on("console", lambda message: told.append(message.text))
        shown.on("pageerror", lambda error: told.append(str(error)))
        shown.on("dialog", lambda dialog: (told.append(dialog.message), dialog.dismiss()))
        shown.goto(written.as_uri())
        return shown

    yield open_page
    for context in contexts:
        context.close()
    assert [one for one in told if not one.startswith("data:")] == []


def live(shown: Page) -> None:
    """Scroll through the page until every chart is alive."""
    for figure in shown.locator("figure").all():
        figure.scroll_into_view_if_needed()
        expect(figure.locator(".vega-embed svg")).to_be_visible()


def color(shown: Page, selector: str, name: str) -> str:
    found: str = shown.locator(selector).first.evaluate("(element, name) => getComputedStyle(element)[name]", name)
    return found


def test_charts_come_to_life_without_a_word_on_the_console_or_a_request(opened: Open) -> None:
    shown = opened()
    live(shown)
    assert shown.locator(".vega-embed").count() == shown.locator("figure").count() == 3


def test_a_tooltip_tells_what_is_under_the_pointer_as_text(opened: Open) -> None:
    shown = opened()
    live(shown)
    shown.locator("#figure-clipped-1 .vega-embed .mark-rect.role-mark path").last.hover()
    tooltip = shown.locator("#vg-tooltip-element.visible")
    expect(tooltip).to_contain_text("site")
    expect(tooltip).to_contain_text(HOSTILE[0])
    assert tooltip.locator("script, img").count() == 0


def test_no_two_charts_share_a_name_and_each_finds_its_own(opened: Open) -> None:
    shown = opened()
    live(shown)
    ids = shown.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(ids) == len(set(ids))
    lost = shown.evaluate(
        """[...document.querySelectorAll("svg")].flatMap((svg) => [...svg.querySelectorAll("[clip-path],[fill*='#']")]
          .flatMap((element) => ["clip-path", "fill"].map((name) => /url\\(.*#([^)'"]+)/.exec(element.getAttribute(name) || "")))
          .filter((found) => found && !svg.querySelector(`[id="${found[1]}"]`)))"""
    )
    assert lost == []
    assert shown.locator("svg [clip-path]").count() >= 2


def test_a_chart_that_fails_leaves_its_drawing(browser: Browser, written: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text(written.read_text(encoding="utf-8").replace('"mark":', '"remark":'), encoding="utf-8")
    shown = browser.new_page()
    # From the beginning: a figure that is in view at once may have failed before anything is scrolled.
    with shown.expect_console_message():
        shown.goto(broken.as_uri())
        shown.locator("#figure-sim").scroll_into_view_if_needed()
    expect(shown.locator("#figure-sim svg")).to_be_visible()
    assert shown.locator("#figure-sim .vega-embed").count() == 0
    shown.close()


def column(shown: Page, table: str, place: int) -> list[str]:
    return shown.locator(f"#{table} tbody tr td:nth-child({place})").all_text_contents()


def test_a_click_sorts_numbers_as_numbers_and_a_second_one_turns_them_round(opened: Open) -> None:
    shown = opened()
    shown.locator("#table-sim summary").click()
    value = shown.locator("#table-sim th", has_text="value")
    place = 1 + shown.locator("#table-sim th").all_text_contents().index("value")
    before = column(shown, "table-sim", place)
    assert value.get_attribute("aria-sort") is None
    value.get_by_role("button").click()
    assert value.get_attribute("aria-sort") == "ascending"
    assert column(shown, "table-sim", place) == sorted(before, key=float)
    value.get_by_role("button").click()
    assert value.get_attribute("aria-sort") == "descending"
    assert column(shown, "table-sim", place) == sorted(before, key=float, reverse=True)


def test_the_keyboard_sorts_and_only_one_column_is_sorted(opened: Open) -> None:
    shown = opened()
    shown.locator("#table-sim summary").focus()
    shown.keyboard.press("Enter")
    shown.locator("#table-sim th button", has_text="value").focus()
    shown.keyboard.press("Enter")
    shown.locator("#table-sim th button", has_text="site").focus()
    shown.keyboard.press("Space")
    assert shown.locator("#table-sim th[aria-sort]").all_text_contents() == ["site"]
    # Sorting is stable: within a site the values are still in order.
    heads = shown.locator("#table-sim th").all_text_contents()
    pairs = zip(*(column(shown, "table-sim", 1 + heads.index(name)) for name in ("site", "value")), strict=True)
    rows = [(site, float(value)) for site, value in pairs]
    assert rows == sorted(rows)


def test_cells_without_a_text_come_last_whichever_way(opened: Open) -> None:
    shown = opened()
    shown.locator("#table-self_sim\\.words summary").click()
    shown.evaluate("document.querySelector('[id=\"table-self_sim.words\"] tbody td.text:nth-child(2)').textContent = ''")
    button = shown.locator("#table-self_sim\\.words th button", has_text="word")
    for _ in range(2):
        button.click()
        assert column(shown, "table-self_sim\\.words", 2)[-1] == ""


LONG = 50_000
"""Rows of a long table."""


@pytest.fixture(scope="module")
def long(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page of long tables whose largest numbers are far below the first rows."""
    places = [(place * 7919) % LONG for place in range(LONG)]
    frame = pd.DataFrame(
        {"measure": "made", "word": [f"w {place}" for place in places], "value": [place / 10 for place in places]}
    )
    frame.loc[frame.index % 5 == 4, "value"] = float("nan")
    path = tmp_path_factory.mktemp("long") / "report.html"
    runs = [run(made=frame, some=frame[:200].assign(word=HOSTILE[0])), run("other", some=frame[200:400])]
    path.write_text(page_of(runs, JoinedTables(runs), []), encoding="utf-8")
    assert path.stat().st_size < 400_000
    shown = browser.new_page()
    shown.goto(path.as_uri())
    yield shown
    shown.close()


def sort(shown: Page, table: str, name: str, by_key: bool, times: int = 1) -> list[list[str]]:
    """The rows that are shown once a table is sorted."""
    details = shown.locator(f"#table-{table}")
    details.evaluate("(element) => { element.open = true; }")
    button = details.locator("th button", has_text=name)
    for time in range(times):
        if by_key:
            button.focus()
            shown.keyboard.press("Enter")
        else:
            button.click()
        way = "descending" if time % 2 else "ascending"
        expect(details.locator(f"th[aria-sort={way}]")).to_have_text(name)
    rows = details.locator("tbody").evaluate(
        "(body) => [...body.rows].map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return [list(row) for row in rows]


@pytest.mark.parametrize("by_key", [False, True])
def test_sorting_sorts_the_whole_of_a_long_table(long: Page, by_key: bool) -> None:
    long.reload()
    largest = sorted((place for row, place in enumerate((at * 7919) % LONG for at in range(LONG)) if row % 5 != 4), reverse=True)
    rows = sort(long, "made", "value", by_key, 2)
    assert [float(row[-1]) for row in rows] == [place / 10 for place in largest[:100]]
    assert long.locator("#table-made caption").text_content() == "made, the first 100 of 50,000 rows by value, descending"
    smallest = sort(long, "made", "value", by_key)
    assert [float(row[-1]) for row in smallest] == [place / 10 for place in largest[:-101:-1]]
    words = sort(long, "made", "word", by_key)
    assert [row[-2] for row in words] == [f"w {place}" for place in range(100)]


def test_missing_numbers_come_last_in_the_whole_and_rows_of_all_runs_are_sorted_together(long: Page) -> None:
    long.reload()
    first = long.locator("#table-some tbody tr").first.inner_html()
    rows = sort(long, "some", "value", False, 2)
    assert "" not in [row[-1] for row in rows]
    assert {row[0] for row in rows} == {"a model", "other"}
    words = sort(long, "some", "word", False)
    assert {row[1] for row in words} == {HOSTILE[0]}
    assert long.locator("#table-some script:not([data-rows])").count() == 0
    # A second heading sorts within the first, where the whole is on the page: the largest still come first.
    assert [row[-1] for row in words] == sorted((row[-1] for row in words), key=float, reverse=True)
    assert sort(long, "some", "run", False)[0][0] == "a model"
    assert long.locator("#table-some tbody tr").count() == 100
    assert first.count("<td") == len(words[0])


def test_hostile_texts_stay_texts(opened: Open) -> None:
    shown = opened()
    live(shown)
    cut = [printable(text if len(text) <= 80 else f"{text[:79]}…") or "(empty)" for text in HOSTILE]
    assert column(shown, "table-self_sim\\.words", 2) == cut
    assert HOSTILE[0] in shown.locator("header td").all_text_contents()
    assert shown.locator("script:not([type])").count() == 2
    assert shown.locator("img").count() == 0


def test_a_download_is_the_table(opened: Open, tmp_path: Path) -> None:
    shown = opened()
    shown.locator("#table-sim summary").click()
    with shown.expect_download() as waiting:
        shown.locator("#table-sim a[download]").click()
    assert waiting.value.suggested_filename == "sim.csv"
    waiting.value.save_as(tmp_path / "sim.csv")
    assert pd.read_csv(tmp_path / "sim.csv")["value"].tolist() == [*sim()["value"], *sim(4)["value"]]
    address = shown.locator("#table-self_sim\\.words a[download]").get_attribute("href") or ""
    found = pd.read_csv(io.StringIO(unquote(address.partition(",")[2])), keep_default_na=False)
    assert found["word"].str.removeprefix("'").tolist() == [text.removeprefix("'") for text in HOSTILE]


def test_without_scripts_every_chart_is_drawn_and_every_table_is_there(opened: Open) -> None:
    shown = opened(java_script_enabled=False)
    assert shown.locator("figure").count() == shown.locator("figure .chart > svg").count() == 3
    shown.locator("#table-sim summary").click()
    expect(shown.locator("#table-sim table")).to_be_visible()
    assert shown.locator("th button").count() == 0


@pytest.mark.parametrize("scripts", [True, False])
def test_the_dark_changes_paper_and_ink_of_page_and_charts(opened: Open, scripts: bool) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        shown = opened(color_scheme=scheme, java_script_enabled=scripts)
        if scripts:
            live(shown)
        parts = (("body", "backgroundColor"), ("body", "color"), ("#figure-sim .role-axis-label text", "fill"))
        seen[scheme] = [color(shown, *part) for part in parts]
    assert all(light != dark for light, dark in zip(seen["light"], seen["dark"], strict=True))
    assert all(colors[1] == colors[2] for colors in seen.values())


@pytest.mark.parametrize("scripts", [True, False])
def test_a_narrow_page_does_not_scroll_sideways(opened: Open, scripts: bool) -> None:
    shown = opened(viewport={"width": 390, "height": 844}, java_script_enabled=scripts)
    if scripts:
        live(shown)
    for summary in shown.locator("summary").all():
        summary.click()
    assert shown.evaluate("document.scrollingElement.scrollWidth") <= 390
    # A live chart is made for the room that there is; a drawing scrolls in its box.
    box = shown.locator("#figure-sim .scroll")
    assert box.evaluate("(element) => element.scrollWidth > element.clientWidth") == (not scripts)
    assert box.get_attribute("tabindex") == "0"


def test_the_first_key_leads_past_what_stands_before(opened: Open) -> None:
    shown = opened()
    shown.keyboard.press("Tab")
    expect(shown.get_by_role("link", name="Skip to the report")).to_be_focused()


def test_a_finding_leads_to_its_figure(opened: Open) -> None:
    shown = opened()
    shown.get_by_role("link", name="Figure 1").click()
    assert shown.url.endswith("#figure-sim")
    expect(shown.locator("#figure-sim h3")).to_be_in_viewport()


def test_headings_go_down_one_step_at_a_time(opened: Open) -> None:
    levels = opened().evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map((heading) => Number(heading.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def luminance(text: str) -> float:
    """Of a colour as a browser writes it, by the rule of WCAG."""
    parts = [float(part) / 255 for part in text[text.index("(") + 1 : text.index(")")].split(",")[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_ink_stands_out_from_its_paper(opened: Open, scheme: str) -> None:
    shown = opened(color_scheme=scheme)
    darkest = sorted(luminance(color(shown, selector, "backgroundColor")) for selector in ("body", "tbody tr:nth-child(even)"))
    inks = ("body", "a[href='#figure-sim']", "dt", "figcaption", "nav a", "summary .muted", ".download a", "th button")
    for ink in inks:
        for paper in darkest:
            low, high = sorted((paper, luminance(color(shown, ink, "color"))))
            assert (high + 0.05) / (low + 0.05) >= 4.5, ink


def test_the_page_can_be_printed_on_white_even_in_the_dark(opened: Open) -> None:
    shown = opened(color_scheme="dark")
    assert shown.pdf().startswith(b"%PDF")
    shown.emulate_media(media="print", color_scheme="dark")
    assert color(shown, "body", "backgroundColor") == "rgb(255, 255, 255)"
    expect(shown.locator("nav")).to_be_hidden()
