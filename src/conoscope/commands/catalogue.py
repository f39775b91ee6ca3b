"""What there is: measures, maps, figures, corpora, presets and studies, as text."""

from collections.abc import Callable
from typing import Any

from conoscope.common.errors import ConoscopeError, one_of
from conoscope.common.options import options_of
from conoscope.corpora import CORPORA, Entry


def listing(what: str) -> str:
    """The measures, maps, figures, corpora, presets or studies, a few lines each."""
    if what not in LISTED:
        raise ConoscopeError(f"nothing called {what!r} can be listed; known: {one_of(LISTED)}")
    return LISTED[what]()


def _measures() -> str:
    from conoscope.measures import CATALOGUE, describe

    return "\n".join(_block(describe(measure)) for measure in CATALOGUE.values())


def _maps() -> str:
    from conoscope.explaining import described

    return described()


def _figures() -> str:
    from conoscope.figures import FIGURES

    rows = [(figure.name, figure.title, one_of(figure.needs)) for figure in FIGURES.values()]
    positions = ("positions", "Products of sinusoidal positions", "nothing: give no folder")
    return "\n".join(f"{name}\n  {title}\n  from {needs}" for name, title, needs in (*rows, positions))


def _corpora() -> str:
    return "\n".join(f"{name:15} {entry.what}{_options(entry)}" for name, entry in CORPORA.items())


def _presets() -> str:
    from conoscope.models.family import PRESETS

    shapes = {name: ", ".join(f"{key} {value}" for key, value in shape.items()) for name, shape in PRESETS.items()}
    return "\n".join(f"{name:15} {shape}" for name, shape in shapes.items())


def _studies() -> str:
    from conoscope.studies import STUDIES

    return "\n".join(
        f"{study.name}\n  {study.title}\n  {study.source}\n  {len(study.conditions)} models, {study.seeds} seeds each; "
        f"claims: {', '.join(claim.name for claim in study.claims)}"
        for study in STUDIES.values()
    )


def _options(entry: Entry) -> str:
    return f" (options: {options_of(entry.choices)})" if entry.choices else ""


def _block(described: dict[str, Any]) -> str:
    facts = "; ".join((f"within {described['within']}", f"options: {described['options']}", described["source"]))
    tables = "".join(f"\n  {table}" for table in described["tables"])
    return f"{described['measure']}\n  {described['what']}\n  {facts}{tables}"


LISTED: dict[str, Callable[[], str]] = {
    "measures": _measures,
    "maps": _maps,
    "figures": _figures,
    "corpora": _corpora,
    "presets": _presets,
    "studies": _studies,
}
