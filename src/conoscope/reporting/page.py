"""The page as text: a pure function of runs, their tables and what was found in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from conoscope.common.markup import Html, joined, tag
from conoscope.common.questions import QUESTIONS
from conoscope.figures import Tables
from conoscope.figures.embedding import bundle, document, script, style
from conoscope.reporting.charts import Drawn, drawn, figure_of
from conoscope.reporting.findings import Finding
from conoscope.reporting.gathering import Run
from conoscope.reporting.making import making
from conoscope.reporting.opening import opening, title_of
from conoscope.reporting.tables import Sheet, by_question, sheets, table_of


@dataclass(frozen=True)
class Section:
    """A part of the page, with the place and the words by which the table of contents names it."""

    anchor: str
    title: str
    inside: Html

    def written(self) -> Html:
        """The section under its heading."""
        return tag("section", tag("h2", self.title, id=self.anchor), self.inside, aria_labelledby=self.anchor)


def page(
    runs: Sequence[Run],
    tables: Tables,
    findings: Sequence[Finding],
    title: str | None = None,
    progress: bool = False,
    differing: Html | None = None,
) -> str:
    """The whole page, which needs no other file and asks nothing of the network. `differing`: what two runs differ by."""
    named, figures = title or title_of(runs), drawn(tables, progress)
    grouped = by_question(sheets(tables, runs))
    made = Section("making", "How it was made", joined((making(runs), _tables(grouped.get("", ()), "Other tables"))))
    apart = [] if differing is None else [Section("differences", "What differs between the two runs?", differing)]
    sections = [*apart, *_answers(figures, grouped), made]
    main = tag(
        "main",
        opening(runs, findings, figures, named),
        _contents(sections),
        tag("div", *(section.written() for section in sections), class_="answers"),
        id="main",
    )
    own = _file("page.js")
    codes = [bundle(), f"{script()}\n{own}"] if figures else [own]
    body = joined((tag("a", "Skip to the report", href="#main", class_="skip"), main))
    return document(named, [style(), _file("page.css")], codes, body)


def _answers(figures: Sequence[Drawn], grouped: Mapping[str, Sequence[Sheet]]) -> list[Section]:
    """What there is to answer each question, where there is something."""
    found = []
    for name, question in QUESTIONS.items():
        charts = [figure_of(one) for one in figures if one.figure.question == name]
        if inside := joined((*charts, _tables(grouped.get(name, ()), "Tables"))):
            found.append(Section(f"question-{name}", question, inside))
    return found


def _contents(sections: Sequence[Section]) -> Html:
    links = (tag("li", tag("a", section.title, href=f"#{section.anchor}")) for section in sections)
    return tag("nav", tag("ul", *links), aria_label="Contents")


def _tables(found: Sequence[Sheet], title: str) -> Html:
    return tag("div", tag("h3", title), *map(table_of, found), class_="tables") if found else Html()


def _file(name: str) -> str:
    return (files("conoscope.reporting") / name).read_text(encoding="utf-8")
