"""What tests of figures share: tables made by hand, names that no chart expects, and what is in a chart."""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from conoscope.capture.loading import LoadedModel
from conoscope.corpora import load_corpus
from conoscope.figures import FIGURES, spec, svg
from conoscope.figures.base import Tables
from conoscope.figures.words import HUMAN
from conoscope.measuring.pipeline import measure

HOSTILE = [
    "x" * 10_000,
    "x" * 9_999 + "y",
    "</script><b>",
    "\u202egnirts\u202c",
    "",
    "😀 a.b[0] 'q' \"d\"",
    "😀" * 60,
    "a\nb\x1b[31m",
    "null",
]
MEASURES = [
    "attention_entropy", "capacity", "class_cones", "class_maps:heads=1.1", "cone_index", "directionality", "effective_rank",
    "frequency", "gates", "heads", "intra_sim", "mixing", "norms", "self_sim", "sim", "stream", "vector_norms",
]  # fmt: skip
GUESS = "WARN Detected faceted independent scales"
"""What Vega-Lite says of panels whose rows are their own, as the cases of each claim are: it takes them to be of one table."""
BUDGET, WIDEST = 250_000, 760
"""Bytes that a figure may take of a page, live and as a picture together, and its pixels."""


def every_table(model: LoadedModel) -> dict[str, pd.DataFrame]:
    """A table for every figure, those of measures by that model on a few texts."""
    measured = measure(model, load_corpus("bistro:test").first(24), MEASURES).tables
    judged = pd.DataFrame(
        {"map": ["attention", "norms", "random"], "average": "macro", "value": 0.5, "low": 0.4, "high": 0.6, "n": 9}
    )
    words = pd.DataFrame({"word": ["good", "soup"], "place": [0, 1], "value": [0.5, None], "example": "one", "label": "positive"})
    maps = pd.concat([words.assign(map=name, predicted="negative") for name in ("attention", "norms", HUMAN)])
    return {
        **measured,
        "capacity": pd.concat([measured["capacity"], measured["capacity"].assign(classes=3)], ignore_index=True),
        "ablation.heads": pd.DataFrame(
            [{"layer": layer, "head": head, "how": how, "value": -0.2 * layer, "low": -0.3 * layer, "high": 0.1, "changed": 0.1,
              "estimate": -0.1 * head, "norm_words": 2.0 * head, "weight_words": 0.1 * layer}
             for how in ("zero", "mean") for layer in (1, 2, 3) for head in (1, 2)]
        ),
        "patch": pd.DataFrame(
            [{"layer": layer, "tokens": kind, "what": "flipped", "value": 0.1 * layer, "low": 0.0, "high": 0.5, "n": 9}
             for layer in (0, 1, 2) for kind in ("differing", "classifying", "other")]
        ),
        "patch.tokens": pd.DataFrame(
            [{"layer": layer, "pair": 1, "place": place, "source": "good", "target": word, "value": 0.3 * layer,
              "probability": 0.5,
              "flipped": layer > 1} for layer in (0, 1, 2) for place, word in enumerate(("<cls>", "good", "bad"), 1)]
        ),
        "steering": pd.DataFrame(
            [{"layer": layer, "from": None, "to": None, "direction": way, "by": "share", "angle": 50 * share, "share": share,
              "flipped": share * (way == "class"), "low": 0.0, "high": 1.0, "probability": share, "n": 9, "judged": layer < 3}
             for layer in (1, 2, 3) for way in ("class", "random", "shuffled", "length") for share in (0.0, 0.5, 1.0)]
        ),
        "attribution": pd.DataFrame(
            [{"part": part, "site": site, "layer": layer, "head": head, "value": 0.3 * (layer or 1) - 0.5 * (head or 0),
              "share": 0.1, "sd": 0.2, "size": 0.4}
             for part, site, layer, head in (
                 ("words", "embeddings", 0, None), ("bias", "classifier", None, None), ("remainder", "all", None, None),
                 *(("head", "context", layer, head) for layer in (1, 2, 3) for head in (1, 2)),
                 *(("forward", "forward", layer, None) for layer in (1, 2, 3)),
             )]
        ),
        "attribution.words": words.assign(value=[0.5, -0.2], predicted="negative", part="heads"),
        "plausibility": judged.assign(metric="auroc"),
        "faithfulness": judged.assign(metric="sufficiency"),
        "explanations": maps,
        "study.published": pd.DataFrame(
            {"what": ["one", "two"], "corpus": "c", "quantity": "sim", "published": [0.5, 0.7], "ours": [0.4, 0.6], "sd": 0.1,
             "n": 5, "holds": "yes"}
        ),
        "study.cones": pd.DataFrame(
            {"condition": ["one", "two"], "layers": [1, 5], "seed": 0, "accuracy": [0.6, 0.5], "value": [0.7, 0.9], "gate": 0.55}
        ),
        "study.head_maps": pd.DataFrame(
            [{"model": model, "gate": gate, "query": query, "key": key, "value": 0.5}
             for model in ("one", "two") for gate in ("open", "directional") for query in (1, 2) for key in (1, 2)]
        ),
        "study.head_lengths": pd.DataFrame(
            [{"model": model, "site": site, "low": low, "value": 0.5}
             for model in ("one", "two") for site in ("query", "key") for low in (1.0, 2.0)]
        ),
        "study.claims": pd.DataFrame(
            {"claim": "c", "case": ["one", "two"], "bound": 0.0, "mean": [0.1, -0.1], "low": [0.05, -0.2], "high": [0.2, 0.1],
             "above": 5, "seeds": 5, "answer": ["yes", "unclear"]}
        ),
    }  # fmt: skip


def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a table, with the nullable numbers that results have."""
    table = pd.DataFrame(rows)
    whole = [name for name in ("layer", "head", "n") if name in table]
    return table.astype(dict.fromkeys(whole, "Int64"))


def of_runs(table: pd.DataFrame, *names: str) -> pd.DataFrame:
    """The same table of several runs."""
    return pd.concat([table.assign(run=name) for name in names], ignore_index=True)


def drawn(name: str, **tables: pd.DataFrame) -> Any:
    """A figure by name, of tables by name; two underscores stand for a dot."""
    return FIGURES[name].draw({table.replace("__", "."): rows for table, rows in tables.items()})


def spec_of(name: str, tables: Tables) -> dict[str, Any]:
    """A figure as Vega-Lite."""
    chart = FIGURES[name].draw(tables)
    assert chart is not None
    return spec(chart)


def rows(name: str, tables: Tables) -> list[dict[str, Any]]:
    """The rows of a figure's one table."""
    (found,) = spec_of(name, tables)["datasets"].values()
    return list(found)


def rows_of(chart: Any) -> list[dict[str, Any]]:
    """The rows that a chart draws, or what it is as Vega-Lite."""
    return [row for rows in _spec(chart)["datasets"].values() for row in rows]


def rows_where(chart: Any, **wanted: Any) -> list[dict[str, Any]]:
    """Those rows that have these values."""
    return [row for row in rows_of(chart) if all(row[name] == value for name, value in wanted.items())]


def parts_of(chart: Any) -> Iterator[dict[str, Any]]:
    """Every single chart within a chart, however deep, with its marks and encodings."""
    found = _spec(chart)
    inner = [child for how in ("concat", "hconcat", "vconcat", "layer") for child in found.get(how, ())]
    for child in [*inner, *([found["spec"]] if "spec" in found else [])]:
        yield from parts_of(child)
    if "mark" in found:
        yield found


def channels(found: Any, name: str) -> Iterator[dict[str, Any]]:
    """Every use of a channel in a chart."""
    return (part["encoding"][name] for part in parts_of(found) if name in part["encoding"])


def panels_of(chart: Any) -> list[str]:
    """The headers of a chart's panels."""
    found: list[str] = _spec(chart)["facet"]["sort"]
    return found


def marks_of(chart: Any) -> list[str]:
    """The kinds of marks, from below."""
    return [part["mark"]["type"] for part in parts_of(chart)]


def size(name: str, tables: Tables) -> int:
    """Bytes of a figure on a page."""
    chart = FIGURES[name].draw(tables)
    return len(json.dumps(spec(chart), separators=(",", ":"))) + len(svg(chart))


def width_of(picture: str) -> float:
    """Pixels of a drawing."""
    return float(picture.split('width="', 1)[1].split('"', 1)[0])


def is_drawable(chart: Any) -> bool:
    """Whether it can be drawn, at a width that a page has, and no name takes more than its room."""
    return width_of(svg(chart)) <= WIDEST and all(len(str(value)) < 150 for row in rows_of(chart) for value in row.values())


def _spec(chart: Any) -> dict[str, Any]:
    return chart if isinstance(chart, dict) else spec(chart)
