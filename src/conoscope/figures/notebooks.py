"""Charts in notebooks: as Altair shows them, but no text of theirs can end the script that they stand in."""

import json
from typing import Any

from conoscope.figures.embedding import script_text


class Shown:
    """Mixed into the class of a chart; copies that Altair makes of it (`properties`, `configure`) are shown alike."""

    def _repr_mimebundle_(self, *include: Any, **exclude: Any) -> Any:
        """What Altair's renderer makes of the chart, its data escaped; without HTML where the data are not found in it."""
        # Altair (6.2) writes JSON into an inline script as it is: a label that holds `</script>` ends it, and what follows runs.
        found: Any = super()._repr_mimebundle_(*include, **exclude)  # type: ignore[misc]
        bundle = found[0] if isinstance(found, tuple) else found
        page = (bundle or {}).get("text/html")
        if page is None:
            return found
        plain = json.dumps(self.to_dict(context={"pre_transform": False}))  # type: ignore[attr-defined]
        escaped = {"text/html": page.replace(plain, script_text(plain))} if plain in page else {}
        kept = {kind: held for kind, held in bundle.items() if kind != "text/html"} | escaped
        return (kept, *found[1:]) if isinstance(found, tuple) else kept


CLASSES: dict[str, Any] = {}
"""Of each kind of chart the class that shows itself so; it has the name that Altair gives it."""


def shown(chart: Any) -> Any:
    """The same chart, which shows itself so."""
    if not isinstance(chart, Shown):
        kind = type(chart)
        if kind.__name__ not in CLASSES:
            CLASSES[kind.__name__] = type(kind.__name__, (Shown, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})
        # Altair's own assignment would make it an attribute of the chart.
        object.__setattr__(chart, "__class__", CLASSES[kind.__name__])
    return chart
