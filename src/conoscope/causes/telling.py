"""What is printed of causal tests."""

from collections.abc import Mapping, Sequence

import pandas as pd

from conoscope.common.markup import cut
from conoscope.common.terminal import printable

FEW = 10
"""Over fewer heads no correlations are shown."""
MOST = 8
"""How many parts are shown."""
NAMED = {"context": "head", "output": "attention of layer", "forward": "feed-forward of layer"}
SURE = 0.05


def told_ablation(tables: Mapping[str, pd.DataFrame], seen: Mapping[str, int]) -> str:
    """The parts with the largest effects on the predicted class's logit, and what predicts the effects of heads."""
    lines: list[str] = []
    if not seen["examples"]:
        return "no texts in this part of the corpus"
    if seen["labelled"]:
        lines.append(f"accuracy {seen['correct'] / seen['labelled']:.3f} of {seen['labelled']} labelled texts")
    whole = tables["ablation"]
    for how, rows in whole[whole["what"] == "logit_predicted"].groupby("how", sort=False):
        lines += [*([""] if lines else []), *_largest(str(how), rows, whole)]
    lines += list(_predictors(tables))
    return "\n".join(lines)


def _largest(how: str, rows: pd.DataFrame, whole: pd.DataFrame) -> list[str]:
    ordered = rows.loc[rows["value"].abs().sort_values(ascending=False, kind="stable").index].head(MOST)
    changed = whole[(whole["what"] == "changed") & (whole["how"] == how)]

    interval = ", 95 % interval" if ordered["low"].notna().any() else ""
    lines = [f"without it ({how}): change of the predicted class's logit{interval}, share of answers that change"]
    for _, row in ordered.iterrows():
        key = tuple(row[["site", "layer", "head"]])
        share = changed["value"][(changed["site"] == key[0]) & (changed["layer"] == key[1]) & same(changed["head"], key[2])].iloc[
            0
        ]
        sure = "" if row["holm"] < SURE else "  (not distinct from 0 after Holm's correction)"
        part = named(row["site"], row["layer"], row["head"])
        lines.append(f"{part:26}{row['value']:9.3f}{_interval(row)}{share:8.1%}{sure}")

    if len(rows) > MOST:
        lines.append(f"... and {len(rows) - MOST} more")
    return lines


def same(column: "pd.Series[int]", value: object) -> "pd.Series[bool]":
    """Where a column has a value, or has none where there is none."""
    return column.isna() if pd.isna(value) else column == value  # type: ignore[call-overload]


def named(site: str, layer: int, head: object) -> str:
    """A part in words."""
    return f"{NAMED[site]} {layer}" if pd.isna(head) else f"{NAMED[site]} {layer}.{head}"  # type: ignore[call-overload]


PREDICTED = {
    "estimate": "effect and first-order estimate",
    "norm": "size of the effect and norm of what is mixed in",
    "norm_words": "size of the effect and norm of what is mixed in from words",
    "weight_words": "size of the effect and weight on words",
    "sim_key": "size of the effect and SIM of keys",
    "sim_value": "size of the effect and SIM of values",
}


def _predictors(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    rows = tables.get("ablation.predictors")
    rows = None if rows is None else rows[(rows["heads"] >= FEW) & rows["value"].notna()]
    if rows is None or rows.empty:
        return []
    lines = ["", "rank correlation over heads"]
    for _, row in rows.iterrows():
        found = f"{row['value']:.3f}{_interval(row)}"
        lines.append(f"{PREDICTED[row['predictor']]} ({row['how']}): {found}, {row['heads']} heads")
    return lines


def _interval(row: "pd.Series[float]") -> str:
    """An interval, after two spaces; nothing where there is none."""
    return f"  [{row['low']:.3f}, {row['high']:.3f}]" if pd.notna(row["low"]) else ""


def told_patch(tables: Mapping[str, pd.DataFrame], pairs: int, counted: int, answers: Sequence[str]) -> str:
    """Of one pair how far each place moves the answer in each layer; of several how often the answer moves, by kind of place."""
    single = pairs == 1
    frame = _one_pair(tables["patch.tokens"]) if single else _many_pairs(tables["patch"], counted)
    if single:
        source, target = map(printable, map(cut, answers))
        head = f"how far the answer moves from {target} (0) to {source} (1) with the vector of each place"
        head += f"\n* the answer is {source} then"
    else:
        head = f"share of {counted} pairs whose answer moves with the vectors of these places"
    if frame["head"].notna().any():
        first = frame.loc[frame["value"].abs().sort_values(ascending=False, kind="stable").index].head(MOST)
        rows = [
            f"head {layer}.{number}  {cell}  {word}"
            for layer, number, cell, word in zip(*(first[c] for c in COLUMNS), strict=True)
        ]
        more = [f"... and {len(frame) - len(rows)} more"] if len(frame) > len(rows) else []
        return "\n".join((f"{head}, the largest first", *rows, *more))
    wide = frame.pivot(index="word", columns="layer", values="cell").loc[frame["word"].unique()]
    width = max(map(len, wide.index))
    lines = ["  ".join((" " * width, *(f"{layer:>7}" for layer in wide.columns)))]
    lines += ["  ".join((word.ljust(width), *(f"{cell:>7}" for cell in wide.loc[word]))) for word in wide.index]
    return "\n".join((f"{head}, by layer", *lines))


COLUMNS = ("layer", "head", "cell", "word")


def _one_pair(frame: pd.DataFrame) -> pd.DataFrame:
    """What is printed of each place: its number, its token, and the other text's where that is another."""
    both = zip(frame["source"], frame["target"], strict=True)
    tokens = [printable(cut(a if a == b else f"{b} ({a})")) for a, b in both]
    words = [f"{place} {token}" for place, token in zip(frame["place"], tokens, strict=True)]
    cells = [f"{value:.2f}{'*' if flipped else ' '}" for value, flipped in zip(frame["value"], frame["flipped"], strict=True)]
    return frame.assign(word=words, cell=cells)


def _many_pairs(frame: pd.DataFrame, counted: int) -> pd.DataFrame:
    """What is printed of each kind of place; how many pairs have such a place, if not all."""
    rows = frame[frame["what"] == "flipped"]
    rows = rows.assign(order=rows["tokens"].map(list(PLACES).index)).sort_values("order", kind="stable")
    some = rows["n"].map(lambda n: "" if n == counted else f" ({n} {'pair' if n == 1 else 'pairs'})")
    return rows.assign(word=rows["tokens"].map(PLACES) + some, cell=rows["value"].map("{:.1%}".format))


PLACES = {"differing": "differing tokens", "classifying": "classifying token", "other": "each other token"}
"""Kinds of places in words."""
