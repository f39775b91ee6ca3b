"""Heads and words as a browser shows them live: saved numbers are those of the library, addresses restore, keys are enough."""

import csv
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

import conoscope as cs
from conoscope.exploring import bundle

BUILT = Path(bundle.__file__).parent / "static" / "explorer.js"
pytestmark = pytest.mark.skipif(not BUILT.is_file(), reason="the explorer's page is not built: make explorer, which needs Node")
TEXT = "the soup was not good but the dessert was lovely"


@pytest.fixture
def address(model: Path) -> Iterator[str]:
    """The address of a running `conoscope explore`."""
    code = "import sys; from conoscope.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "explore", str(model), "--no-browser", "--quiet", "--words", "the soup was good"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8") as process:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("explore: ").strip()
        process.kill()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The page after the text was typed, and its tokens were drawn."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    opened = context.new_page()
    opened.goto(address)
    box = opened.get_by_role("textbox", name="First text").or_(opened.get_by_role("textbox", name="Text A")).first
    box.wait_for(timeout=30_000)
    box.fill(TEXT)
    expect(opened.locator(".chip", has_text="lovely")).to_be_visible()
    yield opened
    context.close()


def saved(page: Page) -> list[dict[str, str]]:
    """The rows of the file that the button CSV saves."""
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    with download.value.path().open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def answer(page: Page) -> str:
    return page.locator(".bars").first.inner_text()


def test_a_head_that_is_saved_has_the_weights_of_trace(page: Page, model: Path) -> None:
    traced = cs.trace(model, [TEXT])
    last = max(traced["weights"])
    page.get_by_role("combobox", name="Layer").select_option(str(last))
    expect(page.locator(".right h2").first).to_contain_text(f"Head {last}.1")
    rows = saved(page)
    assert [row["query_token"] for row in rows[:: len(traced.tokens)]] == list(traced.tokens)
    shown = np.array([float(row["value"]) for row in rows]).reshape(len(traced.tokens), -1)
    np.testing.assert_allclose(shown, traced["weights"][last][0], atol=1e-6)


def test_words_that_are_saved_have_the_scores_of_explain(page: Page, model: Path) -> None:
    page.get_by_role("tab", name="Words").click()
    expect(page.locator(".method .progress")).to_have_count(0, timeout=30_000)
    rows = saved(page)
    names = sorted({row["method"] for row in rows} - {"random"})
    assert {"attention", "gradient", "integrated_gradients"} <= set(names)
    explained = cs.explain(model, [TEXT], names)[0]
    for name in names:
        shown = [float(row["score"]) for row in rows if row["method"] == name]
        np.testing.assert_allclose(shown, explained[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_an_address_restores_what_was_changed_and_taking_it_back_restores_the_answer(page: Page) -> None:
    before = answer(page)
    page.get_by_role("tab", name="Words").click()
    page.locator(".words").first.get_by_role("button", name="good").click()
    expect(page.locator(".edits")).to_contain_text("“good” erased")
    expect(page.locator(".bars").first).to_contain_text("→")
    page.wait_for_function("location.hash.includes('erase')")
    changed, other = answer(page), page.context.new_page()
    other.goto(page.url)
    expect(other.locator(".edits")).to_contain_text("“good” erased", timeout=30_000)
    expect(other.locator(".bars").first).to_have_text(page.locator(".bars").first.inner_text(), use_inner_text=True)
    assert answer(other) == changed
    other.get_by_role("button", name="Take all changes back").click()
    expect(other.locator(".bars").first).to_have_text(before, use_inner_text=True)


def test_the_keyboard_alone_takes_a_head_out_and_puts_it_back(page: Page) -> None:
    page.keyboard.press("Escape")
    page.keyboard.press("3")
    expect(page.get_by_role("tab", name="Heads")).to_have_attribute("aria-selected", "true")
    head = page.locator('[data-head="1.1"]')
    expect(head).to_be_visible()
    page.get_by_role("tab", name="Heads").focus()
    for _ in range(6):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.head"):
            break
    expect(head).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator('[data-head="2.1"]')).to_be_focused()
    page.keyboard.press("x")
    expect(page.locator(".edits")).to_contain_text("head 2.1 taken out")
    page.keyboard.press("u")
    expect(page.locator(".edits")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Head", exact=True)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
