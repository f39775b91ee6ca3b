"""What there is: measures, maps, corpora and presets, as text."""

from typing import Any

from conoscope.corpora import CORPORA, Entry
from conoscope.errors import ConoscopeError
from conoscope.options import options_of


def listing(what: str) -> str:
    """The measures, maps, corpora or presets, a few lines each."""
    if what == "measures":
        from conoscope.measures import CATALOGUE, describe

        return "\n".join(_block(describe(measure)) for measure in CATALOGUE.values())
    if what == "maps":
        from conoscope.explaining import described

        return described()
    if what == "corpora":
        return "\n".join(f"{name:15} {entry.what}{_options(entry)}" for name, entry in CORPORA.items())
    if what == "presets":
        from conoscope.models import PRESETS

        return "\n".join(
            f"{name:15} {', '.join(f'{key} {value}' for key, value in shape.items())}" for name, shape in PRESETS.items()
        )
    raise ConoscopeError(f"nothing called {what!r} can be listed; known: corpora, maps, measures, presets")


def _options(entry: Entry) -> str:
    return f" (options: {options_of(entry.choices)})" if entry.choices else ""


def _block(described: dict[str, Any]) -> str:
    facts = "; ".join((f"within {described['within']}", f"options: {described['options']}", described["source"]))
    tables = "".join(f"\n  {table}" for table in described["tables"])
    return f"{described['measure']}\n  {described['what']}\n  {facts}{tables}"
