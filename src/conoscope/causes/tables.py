"""Tables of an ablation: the effect of every part, heads with what was measured of them, and what predicts their effects."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from conoscope.causes.inference import Paired, holm, paired, rank_correlation, weighted_means
from conoscope.causes.outcomes import OF_ANSWERS, OF_TRUTH, WHAT, Outcomes
from conoscope.causes.parts import Part
from conoscope.common.resampling import INTERVAL, weightings
from conoscope.results.store import TableInfo

INDEX = {
    "ablation": TableInfo("How the answer changes without each head, attention output and feed-forward output.", "causes", 0),
    "ablation.heads": TableInfo("Each head: its effect, the first-order estimate, and what was measured of it.", "causes", 1),
    "ablation.predictors": TableInfo("What predicts which heads matter: rank correlations over heads.", "causes", 2, -1.0, 1.0),
    "ablation.gates": TableInfo("The mean size of the effect of the heads of each gate.", "causes", 3),
}
WATCHED = "logit_predicted"
"""The effect that is estimated to first order, and joined with what was measured."""
PREDICTORS = ("norm", "norm_words", "weight_words", "sim_key", "sim_value")
"""The measured columns that may predict the size of an effect (`measured.py`)."""
MEASURED = ("gates", *PREDICTORS)
"""The columns of what was measured of a head."""
NONE = "no gate"


def tables_of(
    outcomes: Outcomes, parts: Sequence[Part], hows: Sequence[str], resamples: int, measured: pd.DataFrame | None = None
) -> dict[str, pd.DataFrame]:
    """Every table; `measured`: a row for each layer and head that were measured too."""
    whole = effects_table(outcomes, parts, hows, resamples)
    tables = {"ablation": whole}
    if any(part.head is not None for part in parts):
        tables["ablation.heads"] = heads = heads_table(whole, measured)
        numbers = [number for number, part in enumerate(parts) if part.head is not None]
        tables["ablation.predictors"] = predictors_table(outcomes, numbers, heads, hows, resamples)
        if "gates" in heads:
            tables["ablation.gates"] = gates_table(outcomes, numbers, heads, hows)
    return tables


def effects_table(outcomes: Outcomes, parts: Sequence[Part], hows: Sequence[str], resamples: int) -> pd.DataFrame:
    """A row for each way, part and what is watched: the mean over texts, its interval, p, and p by Holm's correction over all
    heads, or over the outputs of all layers."""
    rows = []
    heads = np.array([part.head is not None for part in parts])
    for number, how in enumerate(hows):
        estimates = paired(outcomes.estimates[:, number].astype(float), 0).value
        for place, what in enumerate(WHAT):
            values = outcomes.effects[:, number, :, place].astype(float)
            if what in OF_TRUTH and np.isnan(values).all():
                continue
            found = paired(values, resamples, counted=what in OF_ANSWERS)
            adjusted = np.full(len(parts), np.nan)
            for family in (heads, ~heads):
                adjusted[family] = holm(found.p[family])
            estimate = estimates if what == WATCHED else np.full(len(parts), np.nan)
            rows += [_row(part, how, what, found, at, adjusted[at], estimate[at]) for at, part in enumerate(parts)]
    return pd.DataFrame(rows).astype({"layer": "Int64", "head": "Int64", "n": "Int64"})


def _row(part: Part, how: str, what: str, found: Paired, at: int, adjusted: float, estimate: float) -> dict[str, object]:
    return {
        "measure": "ablation",
        "site": part.site,
        "layer": part.layer,
        "head": part.head,
        "how": how,
        "what": what,
        **{name: float(getattr(found, name)[at]) for name in ("value", "sd")},
        "n": int(found.n[at]),
        **{name: float(getattr(found, name)[at]) for name in ("low", "high", "p")},
        "holm": float(adjusted),
        "estimate": float(estimate),
    }


def heads_table(effects: pd.DataFrame, measured: pd.DataFrame | None) -> pd.DataFrame:
    """A row for each head and way: the effect on the predicted class's logit, other means beside it, and what was measured."""
    of_heads = effects[effects["site"] == "context"]
    main = of_heads[of_heads["what"] == WATCHED].drop(columns="what")
    keys = ["layer", "head", "how"]
    for what in WHAT:
        other = of_heads[of_heads["what"] == what][[*keys, "value"]]
        if what != WATCHED and len(other):
            main = main.merge(other.rename(columns={"value": what}), on=keys, how="left")
    return (main if measured is None else main.merge(measured, on=["layer", "head"], how="left")).reset_index(drop=True)


def predictors_table(
    outcomes: Outcomes, numbers: Sequence[int], heads: pd.DataFrame, hows: Sequence[str], resamples: int
) -> pd.DataFrame:
    """Spearman's correlation over heads: of the effect and its estimate, with an interval over resampled texts; and of the size
    of the effect and measured numbers, without: a resampled mean is larger in size by the noise of its texts, twice."""
    rows = []
    for number, how in enumerate(hows):
        effects = outcomes.effects[:, number, numbers, WHAT.index(WATCHED)].astype(float)
        estimates = outcomes.estimates[:, number, numbers].astype(float)
        given = heads[heads["how"] == how]
        ranked = {"estimate": lambda w, x=effects, e=estimates: rank_correlation(weighted_means(w, x), weighted_means(w, e))}
        for name in (name for name in PREDICTORS if name in given and given[name].notna().any()):
            known = given[name].notna().to_numpy()
            column = given[name].to_numpy(float)[known]
            ranked[name] = lambda w, x=effects[:, known], c=column: rank_correlation(
                np.abs(weighted_means(w, x)), np.broadcast_to(c, (len(w), len(c)))
            )
        for name, of in ranked.items():
            signed = name == "estimate"
            count = len(numbers) if signed else int(given[name].notna().sum())
            row = {"measure": "ablation", "how": how, "predictor": name, "heads": count}
            rows.append({**row, **_resampled(of, len(effects), resamples if signed else 0)})
    return pd.DataFrame(rows)


def gates_table(outcomes: Outcomes, numbers: Sequence[int], heads: pd.DataFrame, hows: Sequence[str]) -> pd.DataFrame:
    """The mean size of the effect of the heads that have a gate, of those that have none, and of all; a head may have several.

    Beside it what noise alone would make of it, were all effects 0 and normal: the mean of √(2/π) sd / √n. There is no interval,
    since a resampled mean is larger in size by the noise of its texts, twice.
    """
    rows = []
    for number, how in enumerate(hows):
        effects = outcomes.effects[:, number, numbers, WHAT.index(WATCHED)].astype(float)
        names = heads[heads["how"] == how]["gates"].fillna(NONE).map(lambda text: str(text).split(" + "))
        kinds = dict.fromkeys(["all heads", *sorted({name for of_head in names for name in of_head})])
        for kind in kinds:
            chosen = np.array([kind == "all heads" or kind in of_head for of_head in names])
            found = paired(effects[:, chosen], 0)
            noise = np.sqrt(2 / np.pi) * found.sd / np.sqrt(found.n)
            row = {"measure": "ablation", "how": how, "gate": kind, "heads": int(chosen.sum())}
            rows.append({**row, "value": np.abs(found.value).mean(), "sd": np.nan, "n": len(effects), "noise": noise.mean()})
    return pd.DataFrame(rows)


def _resampled(of: object, texts: int, resamples: int) -> Mapping[str, float]:
    """A number of all texts, with its interval over resamples."""
    assert callable(of)
    value = float(of(np.ones((1, texts)))[0])
    drawn = [of(weights) for weights in weightings(texts, resamples if texts > 1 else 0, texts)]
    known = _known(drawn)
    low, high = np.quantile(known, INTERVAL) if len(known) else (np.nan, np.nan)
    return {"value": value, "sd": float("nan"), "n": texts, "low": float(low), "high": float(high)}


def _known(drawn: Sequence[Float[np.ndarray, " _"]]) -> Float[np.ndarray, " _"]:
    every = np.concatenate(drawn) if drawn else np.zeros(0)
    return every[~np.isnan(every)]
