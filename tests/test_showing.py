"""Showing: what a notebook shows of a result."""

from html.parser import HTMLParser

from conoscope.capture.loading import LoadedModel
from conoscope.corpora import Example
from conoscope.measuring.pipeline import measure
from conoscope.reporting.notebook import shown
from conoscope.results.result import Result


class Seen(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words += data


def test_a_result_shows_what_was_measured_what_is_worth_knowing_and_a_figure(pure: LoadedModel) -> None:
    result = measure(pure, [Example("the soup was cold", "negative"), Example("we loved it", "positive")], ["sim"])
    seen = Seen(result._repr_html_())
    assert "2 texts" in seen.words
    assert "SIM" in seen.words
    assert seen.tags.count("img") == 1
    assert "sim" in seen.words.rpartition("Tables: ")[2]


def test_names_are_text_whatever_they_hold(pure: LoadedModel) -> None:
    result = measure(pure, [Example("we loved it", "positive")], ["sim"])
    name = "</b><script>alert(1)</script>\u202e"
    seen = Seen(Result(result.tally, {**result.provenance, "model": {**result.provenance["model"], "name": name}})._repr_html_())
    assert "script" not in seen.tags
    assert "</b><script>alert(1)</script>\\u202e on" in seen.words


def test_a_result_is_called_in_a_line(pure: LoadedModel) -> None:
    result = measure(pure, [Example("we loved it", "positive")], ["sim"])
    assert repr(result).endswith(", 1 text: sim>")
    assert len(repr(result)) < 100


def test_nothing_counted_is_said(pure: LoadedModel) -> None:
    result = measure(pure, [Example("we loved it", "positive")], ["sim"])
    assert "nothing was counted" in shown({}, result.provenance)
