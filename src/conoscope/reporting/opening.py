"""The first screen: what was measured, and what is worth knowing of it."""

from collections.abc import Mapping, Sequence

from conoscope.common.markup import Html, cut, joined, quoted, sentence, tag
from conoscope.common.terminal import printable
from conoscope.reporting.charts import Drawn
from conoscope.reporting.facts import screen_facts
from conoscope.reporting.findings import Finding
from conoscope.reporting.gathering import Run
from conoscope.results.store import missing_shards

COUNTS = ("No thing", "One thing", "Two things", "Three things", "Four things", "Five things")
CLASSES = 5
"""How many classes are named."""


def opening(runs: Sequence[Run], findings: Sequence[Finding], figures: Sequence[Drawn], title: str) -> Html:
    """The title, the runs, and the findings with links to their figures."""
    told = {name: facts([run for run in runs if run.name == name]) for name in dict.fromkeys(run.name for run in runs)}
    return tag(
        "header",
        tag("p", "conoscope report", class_="overline"),
        tag("h1", quoted(title, 160)),
        _one(*told.values()) if len(told) == 1 else _several(told),
        *(tag("p", warning, class_="warning") for warning in _warnings(runs)),
        _findings(findings, figures),
        class_="opening",
    )


def title_of(runs: Sequence[Run]) -> str:
    """What a page of such runs is called."""
    names = list(dict.fromkeys(run.name for run in runs))
    return f"Self-attention in {cut(names[0])}" if len(names) == 1 else f"Self-attention, {len(names)} runs side by side"


def facts(runs: Sequence[Run]) -> dict[str, str]:
    """What was measured, of the runs of one name: what the first says that knows it."""
    found: dict[str, str] = {}
    for run in runs:
        model, corpus = run.provenance.get("model", {}), run.provenance.get("corpus", {})
        examples = run.provenance.get("seen", {}).get("examples")
        for name, fact in {
            "Model": run.name,
            "Type": model.get("type", ""),
            "Corpus": corpus.get("name", "") if examples else "none, the weights alone" if examples == 0 else "",
            "Split": corpus.get("split", ""),
            "Texts": f"{examples:,}" if examples else "",
            **screen_facts(run.provenance, run.tables),
            "Layers × heads": _size(run),
            "Classes": _classes(model.get("labels") or corpus.get("labels") or ()),
        }.items():
            found[name] = found.get(name) or fact or ""
    return found


def _size(run: Run) -> str:
    """As the tables tell it: layers and heads are numbered from 1."""
    whole = [frame for name, frame in run.tables.items() if not name.startswith("class_maps")]
    layers, heads = (
        max(
            (int(frame[column].max()) for frame in whole if column in frame and frame[column].notna().any()),
            default=0,
        )
        for column in ("layer", "head")
    )
    return f"{layers} × {heads}" if layers and heads else f"{layers} layers" if layers else ""


def _classes(labels: Sequence[str]) -> str:
    named = ", ".join(cut(str(label), 24) or "(empty)" for label in labels[:CLASSES])
    return f"{named}, … ({len(labels)} in all)" if len(labels) > CLASSES else named


def _one(told: Mapping[str, str]) -> Html:
    return tag(
        "dl", *(tag("div", tag("dt", name), tag("dd", quoted(fact))) for name, fact in told.items() if fact), class_="facts"
    )


def _several(told: Mapping[str, Mapping[str, str]]) -> Html:
    columns = [name for name in next(iter(told.values())) if any(facts[name] for facts in told.values())]
    heads = tag("tr", *(tag("th", name, scope="col") for name in columns))
    rows = (
        tag("tr", *(tag("td", quoted(facts[name]) if facts[name] else "", class_="text") for name in columns))
        for facts in told.values()
    )
    table = tag("table", tag("caption", "What was measured", class_="unseen"), tag("thead", heads), tag("tbody", *rows))
    return tag("div", table, class_="scroll", role="region", aria_label="What was measured", tabindex="0")


def _warnings(runs: Sequence[Run]) -> list[Html]:
    parts = [(run.name, missing_shards(run.provenance)) for run in runs if run.provenance.get("shards")]
    return [
        joined((quoted(name), f" was measured on a part of its corpus; shards {', '.join(missing)} are missing."))
        for name, missing in parts
        if missing
    ]


def _findings(findings: Sequence[Finding], figures: Sequence[Drawn]) -> Html:
    if not findings:
        return Html()
    known = {found.figure.name: found for found in figures}
    items = (tag("li", tag("p", sentence(printable(one.text)), *_link(known.get(one.figure)))) for one in findings)
    heading = f"{COUNTS[len(findings)] if len(findings) < len(COUNTS) else 'Things'} worth knowing"
    return tag("section", tag("h2", heading, id="findings"), tag("ol", *items), class_="findings", aria_labelledby="findings")


def _link(found: Drawn | None) -> Sequence[str]:
    return () if found is None else (" ", tag("a", f"Figure\u00a0{found.number}", href=f"#{found.anchor}"))
