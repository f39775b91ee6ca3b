"""Rows of one model for Kobayashi's tables."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from conoscope.common.writing import write_text
from conoscope.studies.base import Row

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.results.result import Result
    from conoscope.studies.made import Made

RANKS = "wikitext2/bert_base_uncased_rank_count_ids.txt"
"""Rank, count and id of BERT's wordpieces in its training data."""
FITS = {"the": 1996, ".": 1012, "[CLS]": 101}
"""Some token ids of the vocabulary that the ranks belong to."""
STOPS = (".", ",")


def read(made: "Made") -> Iterator[Row]:
    """Weights, norms and lengths by kind, mixing ratios and expansion, by layer and over all; correlations; dispersion."""
    with TemporaryDirectory() as folder:
        ranks = _ranks(made, Path(folder) / "ranks.tsv")
        result = made.measure("norms", "frequency", "mixing", kinds={"stops": STOPS}, frequencies=ranks)
    yield from _with_mean(_by_layer(result))
    dispersion, cancel = result["norms.dispersion"], result["norms.cancel_out"]
    yield {"quantity": "dispersion", "value": float(dispersion["value"].mean())}
    for _, row in cancel[cancel["head"].isna()].dropna(subset="value").iterrows():
        yield _row(f"cancel.{row['kind']}", row)
    frequency = result["frequency"]
    for _, row in frequency[frequency["tokens"] == "all"].dropna(subset="value").iterrows():
        yield _row(f"rho.{row['what']}{'' if row['by'] == 'file' else '.corpus'}", row)


def _ranks(made: "Made", path: Path) -> Path | None:
    """The published ranks as a table; None if the file is missing or belongs to another vocabulary."""
    from conoscope.corpora.entry import data_folder

    listed = data_folder(made.place.data_dir) / RANKS
    known = made.model.tokenizer.get_vocab()
    if not listed.is_file() or any(known.get(token) != number for token, number in FITS.items()):
        return None
    lines = (line.split() for line in listed.read_text(encoding="utf-8").splitlines())
    write_text(path, "rank\tid\n" + "".join(f"{rank}\t{number}\n" for rank, _, number in lines))
    return path


def _by_layer(result: "Result") -> "pd.DataFrame":
    """Table of layer, quantity and value. Values by head are averaged over heads; `share` is the share of the sum over kinds."""
    import pandas as pd

    norms, mixing, expansion = (result[name] for name in ("norms", "mixing", "mixing.expansion"))
    of_kind = norms[norms["head"].notna()].groupby(["layer", "kind"])[["weight", "value", "transformed"]].mean()
    of_kind["share"] = of_kind["value"] / of_kind.groupby("layer")["value"].transform("sum")
    long = of_kind.drop(columns="value").rename(columns={"transformed": "length"}).reset_index().melt(["layer", "kind"])
    chosen = mixing[mixing["kind"].isin(("all", "cls", "sep", "other"))]
    parts = (
        long.assign(quantity=long["variable"] + "." + long["kind"]),
        chosen.assign(quantity=chosen["method"].where(chosen["kind"] == "all", chosen["method"] + "." + chosen["kind"])),
        expansion.assign(quantity="expansion", value=expansion["published"]),
    )
    return pd.concat([part[["layer", "quantity", "value"]] for part in parts]).dropna()


def _with_mean(found: "pd.DataFrame") -> Iterator[Row]:
    """One row per layer, and the mean over layers."""
    yield from (_row(row["quantity"], row) for _, row in found.iterrows())
    for quantity, value in found.groupby("quantity", sort=False)["value"].mean().items():
        yield {"quantity": str(quantity), "value": float(value)}


def _row(quantity: str, row: "pd.Series[float]") -> Row:
    import pandas as pd

    keys = {} if pd.isna(row["layer"]) else {"layer": int(row["layer"])}
    return {"quantity": quantity, **keys, "value": float(row["value"])}
