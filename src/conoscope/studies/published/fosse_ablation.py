"""What decides whether cones are narrow: width, step, positions, residual, batches and penalty, each changed alone."""

from collections.abc import Iterator, Mapping
from math import isnan, sqrt
from typing import TYPE_CHECKING, Any

from conoscope.studies.base import Claim, Condition, Published, Row, Study
from conoscope.studies.published.fosse_table_1 import COSINES, SITES, SLIDES
from conoscope.studies.published.fosse_table_2 import FIGURES, MARGIN, PENALTIES
from conoscope.training.settings import Training

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

CORPUS, DEPTHS, TEXTS = "hatexplain", (1, 5), 999
PENALTY = 1e-3
"""The middle one of the published weights."""
COST = 0.02
"""By how much accuracy may be lower in conditions that are said to cost nothing; the margin is ours."""

HUNDRED: Mapping[str, Any] = {"vectors": "glove", "batches": "shuffled", "learning_rate": 1e-3}
LIFTED: Mapping[str, Any] = {**HUNDRED, "lift": 300}
"""The published width and step, on the same word vectors."""
NARROW, WIDE = "100 wide", "300 wide"
FAST, SLOW = "100 wide, step 3e-3", "300 wide, step 3.3e-4"
FAR, NEAR = "100 wide, positions x 1.73", "300 wide, positions / 1.73"
ALONE, BARE, GROUPED = "300 wide, no positions", "300 wide, no residual", "300 wide, grouped batches"
SENTENCE, SUMMED = "300 wide, penalty per sentence", "300 wide, penalty summed"
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    NARROW: HUNDRED,
    WIDE: LIFTED,
    SLOW: {**LIFTED, "learning_rate": 3.3e-4},
    FAST: {**HUNDRED, "learning_rate": 3e-3},
    FAR: {**HUNDRED, "position_scale": sqrt(3)},
    NEAR: {**LIFTED, "position_scale": 1 / sqrt(3)},
    ALONE: {**LIFTED, "positions": "none"},
    BARE: {**LIFTED, "residual": "none"},
    GROUPED: {**LIFTED, "batches": "grouped"},
    SENTENCE: {**LIFTED, "entropy_penalty": PENALTY},
    SUMMED: {**LIFTED, "entropy_penalty": PENALTY, "penalty_unit": "summed"},
}
"""The settings of each condition. Sinusoidal positions are √3 times as long at width 300 as at 100, lifted words are not longer:
positions × √3 at 100 are to words as they are at 300, and the other way round."""
QUICK = ((NARROW, 5), (WIDE, 1), (WIDE, 5), (FAST, 5), (ALONE, 1), (SUMMED, 1))


def _conditions() -> Iterator[Condition]:
    for name, settings in SETTINGS.items():
        for layers in DEPTHS:
            keys = {"corpus": CORPUS, "condition": name, "layers": layers}
            training = Training(layers=layers, **settings)
            yield Condition(keys, CORPUS, training, balanced=TEXTS, trace=True, quick=(name, layers) in QUICK)


def _read(made: "Made") -> Iterator[Row]:
    from conoscope.studies.controls import entropy_rows, sim_rows

    result = made.measure("sim", "attention_entropy", "attention_entropy:softmax=twice")
    yield {"quantity": "accuracy", "value": made.accuracy()}
    yield from entropy_rows(result)
    yield from sim_rows(made, result["sim"], SITES)
    last = made.condition.keys["layers"]
    for row in made.trace:
        for site in ("key", "value"):
            value, epoch = float(row[f"sim_{site}_{last}"]), round(row["epoch"])
            if not isnan(value):
                yield {"quantity": f"trace.sim.{site}", "layer": last, "epoch": epoch, "value": value}


def _published() -> Iterator[Published]:
    """Table 1 beside the condition as published, and the middle of table 2 beside both penalties."""
    for site in ("key", "value"):
        for layers in DEPTHS:
            for layer, figure in enumerate(SLIDES[CORPUS, site][layers - 1], 1):
                keys = {"condition": WIDE, "layers": layers, "quantity": f"sim.{site}", "layer": layer}
                yield Published(keys, figure, "S")
    for name in (SENTENCE, SUMMED):
        for quantity in ("entropy", "sim.key", "sim.value"):
            keys = {"condition": name, "layers": 1, "quantity": quantity, "layer": 1}
            yield Published(keys, FIGURES[CORPUS, quantity][PENALTIES.index(PENALTY)], "S")


def _last(rows: "pd.DataFrame", *quantities: str) -> "pd.DataFrame":
    return rows[rows["quantity"].isin(quantities) & (rows["layer"] == rows["layers"])]


def _pairs(rows: "pd.DataFrame", *pairs: tuple[str, str]) -> "pd.DataFrame":
    """SIM of the last layer's keys and values in one condition minus that in another, of each pair."""
    return _less(_last(rows, "sim.key", "sim.value"), ("layers", "quantity"), pairs)


def _less(rows: "pd.DataFrame", by: tuple[str, ...], pairs: tuple[tuple[str, str], ...]) -> "pd.DataFrame":
    import pandas as pd

    from conoscope.studies.contrasts import difference, where

    each = {
        (more, less): difference(where(rows, condition=more), where(rows, condition=less), by) for more, less in pairs
    }  # fmt: skip
    return pd.concat(
        [found.assign(case=f"{more} less {less}: " + found["case"].astype(str)) for (more, less), found in each.items()]
    )


def _learnt(rows: "pd.DataFrame") -> "pd.DataFrame":
    """SIM of the last layer's values minus that before training."""
    from conoscope.studies.contrasts import difference
    from conoscope.studies.summaries import UNTRAINED

    return difference(_last(rows, "sim.value"), _last(rows, f"sim.value{UNTRAINED}"), ("condition", "layers"))


def _by_epoch(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Spearman's correlation of the epoch and SIM of the last layer's values, with 0 for before training."""
    import pandas as pd

    from conoscope.studies.contrasts import correlation, where

    trace = where(rows, quantity="trace.sim.value")
    epochs = trace.assign(quantity="epoch", value=trace["epoch"])
    by = ("condition", "layers")
    return correlation(pd.concat([trace, epochs]), "trace.sim.value", "epoch", ("epoch",), by)


def _sharper(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Entropy in the first layer with the penalty per sentence minus that with the summed one."""
    from conoscope.studies.contrasts import where

    return _less(where(rows, quantity="entropy", layer=1), ("layers",), ((SENTENCE, SUMMED),))


def _accuracies(rows: "pd.DataFrame", *pairs: tuple[str, str]) -> "pd.DataFrame":
    from conoscope.studies.contrasts import where

    return _less(where(rows, quantity="accuracy"), ("layers",), pairs)


CLAIMS = (
    Claim(
        "wider",
        "At an equal step wider is narrower: SIM of the last layer is larger at 300 than at 100.",
        lambda rows: _pairs(rows, (WIDE, NARROW)),
        within=COSINES,
    ),
    Claim(
        "larger-step",
        "At an equal width a larger step is narrower.",
        lambda rows: _pairs(rows, (FAST, NARROW), (WIDE, SLOW)),
        within=COSINES,
    ),
    Claim(
        "step-for-width",
        "The step can stand for the width: three times the step at 100, and a third of it at 300, come to within .05 of the "
        "other width, from below and from above (the margin is ours).",
        lambda rows: _pairs(rows, (FAST, WIDE), (WIDE, FAST), (NARROW, SLOW), (SLOW, NARROW)),
        -MARGIN,
        within=COSINES,
    ),
    Claim(
        "positions-length",
        "Longer positions beside words are narrower: × √3 at 100, and as they are rather than / √3 at 300.",
        lambda rows: _pairs(rows, (FAR, NARROW), (WIDE, NEAR)),
        within=COSINES,
    ),
    Claim("positions", "Positions narrow cones.", lambda rows: _pairs(rows, (WIDE, ALONE)), within=COSINES),
    Claim(
        "residual",
        "The residual spreads: without it cones are narrower.",
        lambda rows: _pairs(rows, (BARE, WIDE)),
        within=COSINES,
    ),
    Claim(
        "batches",
        "Grouping batches by length leaves cones as they are: SIM falls and rises by less than .05 (the margin is ours).",
        lambda rows: _pairs(rows, (GROUPED, WIDE), (WIDE, GROUPED)),
        -MARGIN,
        within=COSINES,
    ),
    Claim(
        "summed",
        "At equal λ a penalty summed in nats sharpens attention more than one per sentence.",
        _sharper,
        within=(-1.0, 1.0),
    ),
    Claim(
        "penalty",
        "A penalty on entropy narrows the cones of the last layer, per sentence and summed.",
        lambda rows: _pairs(rows, (SENTENCE, WIDE), (SUMMED, WIDE)),
        within=COSINES,
    ),
    Claim("learnt", "SIM of the last layer's values is larger than before training.", _learnt, within=COSINES),
    Claim(
        "by-epoch",
        "SIM of the last layer's values rises epoch by epoch (Spearman's correlation with the epoch).",
        _by_epoch,
        within=(-1.0, 1.0),
        coarse=True,
    ),
    Claim(
        "free",
        "Narrower cones cost no more than .02 of accuracy, whether by width or by step (the margin is ours).",
        lambda rows: _accuracies(rows, (WIDE, NARROW), (FAST, NARROW)),
        -COST,
        within=(-1.0, 1.0),
        gated=False,
    ),
)

STUDY = Study(
    name="fosse-ablation",
    title="What decides whether cones are narrow: width, step, positions, residual, batches and penalty",
    source="Fosse, Nguyen, Sébillot and Gravier 2023, Géométrie de l'auto-attention en classification (TALN), tables 1 and 2",
    conditions=tuple(_conditions()),
    read=_read,
    published=tuple(_published()),
    claims=CLAIMS,
    differs=(
        "No source has this ablation: conditions and claims are ours.",
        "All conditions take the same word vectors, GloVe 6B 100d, in 300 numbers lifted by a fixed matrix with orthonormal "
        "rows, which keeps lengths and angles. Where a cut of that file lacks one-letter words and digits, these begin at zero.",
        "Sinusoidal positions are √(width / 2) long: √3 times as long at 300 as at 100, while lifted words keep their length. "
        "Conditions with positions × 1.73 and / 1.73 put the ratio of the other width in place.",
        "300 wide with a step of 1e-3 and shuffled batches are the published settings; all else is changed from there, one thing "
        "at a time, with the same seeds.",
        "Penalties have λ = 1e-3, the middle one of the published weights, on [CLS]'s row in the first layer. Published figures "
        "beside them are of one layer; the source does not say which of the two scales its λ has.",
        "Traces are of SIM of the last layer on the first 256 of the test texts, before training (epoch 0) and after each epoch; "
        "a model's own SIM is that of its best epoch, on all of them.",
        "Tokens are lower-cased words by a regular expression; published: HateXplain's tokens as they are given.",
    ),
    meaning=(
        "With five layers width and step decide: at an equal step wider models have narrower cones (`wider`), at an equal width "
        "those with a larger step (`larger-step`). Three times the step brings 100 wide models near 300 wide ones; a third of it "
        "does not bring these down to 100 wide ones (`step-for-width`). Cones are as narrow with grouped batches, and narrow on "
        "average without positions or without the residual too. Some models of five layers with a large step for their width "
        "learn nothing; with these in, `free` is unclear. "
        "One mark in the first figure is one model: how narrow the cone of its last layer's values is, and how "
        "often it is right. Models left of the dashed line are hardly better than the largest class."
    ),
    seeds=10,
)
