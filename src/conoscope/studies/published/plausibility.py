"""Plausibility: whether attention, norms, rollouts and gradients point to the words that people marked, and whether attention is
too uniform to do so."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from conoscope.studies.base import Claim, Condition, Published, Row, Study
from conoscope.studies.contrasts import cases, difference, where
from conoscope.training.settings import Training

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

TEXTS = {"hatexplain": "hatexplain:test", "yelp_hat": "yelp_hat:test-50"}
SHALLOW, DEEP = 1, 3
BEGUN = Training(vectors="glove-50", lift=300, batches="shuffled")
PENALTIES: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "entropy": {"entropy_penalty": 0.01},
    "strong entropy": {"entropy_penalty": 0.1},
    "rationale": {"rationale_penalty": 1.0},
}
"""Penalties on the attention of [CLS] in the last layer, added to the loss."""
MAPS = ("attention", "norms", "columns", "rollout", "rollout_norms", "gradient")
"""Integrated gradients are left out: they need Captum, which is not always installed."""
RAW, SOFTMAX = "micro of raw weights", "micro after softmax"
AS_PUBLISHED = {RAW: ("none", ("auroc", "auprc")), SOFTMAX: ("softmax_rescale", ("auprc",))}
"""Further averages for attention: how its weights are normalised in each text before they are pooled, and the metrics."""
BY, CORPUS = ("corpus", "layers", "average"), ("corpus", "average")
MARGIN = 0.01
"""What may be lost where one map is said to be no worse than another."""
UNIFORM, LITTLE = 0.9, 0.6
"""The entropy of [CLS]'s weights above which they count as uniform, and the AUROC below which they explain little (chance: .5).
Both bounds are ours."""

ATTENTION = {
    ("hatexplain", SHALLOW): {"auroc": 0.7085, "auprc": 0.5218, "accuracy": 0.6309},
    ("hatexplain", DEEP): {"auroc": 0.5199, "auprc": 0.4696, "accuracy": 0.6246},
    ("yelp_hat", SHALLOW): {"auroc": 0.7116, "auprc": 0.3768, "accuracy": 0.9056},
    ("yelp_hat", DEEP): {"auroc": 0.6256, "auprc": 0.2955, "accuracy": 0.9053},
}
"""AUROC of one run; AUPRC and micro-F1, which is accuracy, are means of at most three."""
AVERAGE = {"auroc": RAW, "auprc": SOFTMAX}


def _conditions() -> Iterator[Condition]:
    for corpus, texts in TEXTS.items():
        for layers in (SHALLOW, DEEP):
            for penalty, added in PENALTIES.items():
                keys = {"corpus": corpus, "layers": layers, "penalty": penalty}
                training = replace(BEGUN, layers=layers, penalty_layers=(layers, layers), **added)
                quick = corpus == "hatexplain" and (layers == SHALLOW or penalty == "none") and "entropy" not in penalty
                yield Condition(keys, corpus, training, texts=texts, quick=quick)


def _read(made: "Made") -> Iterator[Row]:
    yield {"quantity": "accuracy", "value": made.accuracy()}
    entropy = made.measure("attention_entropy")["attention_entropy"]
    last = entropy[(entropy["row"] == "cls") & (entropy["layer"] == entropy["layer"].max())]
    yield {"quantity": "entropy", "map": "attention", "value": float(last["value"].mean())}
    found = made.plausibility(*MAPS)
    ranked = found["metric"].isin(("auroc", "auprc")) | ((found["metric"] == "density") & (found["map"] == "random"))
    yield from _rows(found[ranked])
    for average, (normalize, metrics) in AS_PUBLISHED.items():
        pooled = made.plausibility("attention", normalize=normalize)
        wanted = pooled["metric"].isin(metrics) & (pooled["average"] == "micro")
        yield from _rows(pooled[wanted].assign(average=average))


def _rows(found: "pd.DataFrame") -> Iterator[Row]:
    for row in found.dropna(subset="value").to_dict("records"):
        yield {"quantity": row["metric"], "map": row["map"], "average": row["average"], "value": float(row["value"])}


def _published() -> Iterator[Published]:
    for (corpus, layers), figures in ATTENTION.items():
        for quantity, figure in figures.items():
            told = {} if quantity == "accuracy" else {"map": "attention", "average": AVERAGE[quantity]}
            yield Published({"corpus": corpus, "layers": layers, "penalty": "none", "quantity": quantity, **told}, figure, "N")


def _auroc(rows: "pd.DataFrame", explained: str = "attention", penalty: str = "none") -> "pd.DataFrame":
    return where(rows, quantity="auroc", map=explained, penalty=penalty)


def _above_chance(rows: "pd.DataFrame") -> "pd.DataFrame":
    shallow = where(rows, layers=SHALLOW)
    return difference(_auroc(shallow), _auroc(shallow, "random"), CORPUS)


def _shallow_less_deep(rows: "pd.DataFrame") -> "pd.DataFrame":
    return difference(_auroc(where(rows, layers=SHALLOW)), _auroc(where(rows, layers=DEEP)), CORPUS)


def _taught(rows: "pd.DataFrame") -> "pd.DataFrame":
    return difference(_auroc(rows, penalty="rationale"), _auroc(rows), BY)


def _sharpened(rows: "pd.DataFrame") -> "pd.DataFrame":
    return _penalised(rows, "auroc")


def _precise(rows: "pd.DataFrame") -> "pd.DataFrame":
    return _penalised(rows, "auprc")


def _penalised(rows: "pd.DataFrame", quantity: str) -> "pd.DataFrame":
    """A metric of attention with a penalty on its entropy minus the same without."""
    import pandas as pd

    there = where(rows, quantity=quantity, map="attention")
    penalties = [name for name in PENALTIES if "entropy" in name]
    contrasts = [
        difference(
            where(there, penalty=name).assign(beside=name), where(there, penalty="none").assign(beside=name), (*BY, "beside")
        )
        for name in penalties
    ]
    return pd.concat(contrasts)


def _norms_less_weights(rows: "pd.DataFrame") -> "pd.DataFrame":
    return difference(_auroc(rows, "norms"), _auroc(rows), BY)


def _weights_less_gradient(rows: "pd.DataFrame") -> "pd.DataFrame":
    return difference(_auroc(rows), _auroc(rows, "gradient"), BY)


def _kept(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Accuracy with the rationale penalty minus that without."""
    accuracy = where(rows, quantity="accuracy")
    return difference(where(accuracy, penalty="rationale"), where(accuracy, penalty="none"), ("corpus", "layers"))


def _entropy(rows: "pd.DataFrame") -> "pd.DataFrame":
    return cases(where(rows, quantity="entropy", penalty="none"), ("corpus", "layers"))


def _explaining(rows: "pd.DataFrame") -> "pd.DataFrame":
    """The AUROC of attention, with its sign changed."""
    auroc = _auroc(rows)
    return cases(auroc.assign(value=-auroc["value"]), BY)


STUDY = Study(
    name="plausibility",
    title="Plausibility: attention and other maps against the words that people marked",
    source="Fosse, Nguyen, Sébillot and Gravier 2023, Géométrie de l'auto-attention en classification (TALN), and its code",
    conditions=tuple(_conditions()),
    read=_read,
    published=tuple(_published()),
    claims=(
        Claim("chance", "The attention of one layer is more plausible than chance.", _above_chance, within=(-1, 1)),
        Claim(
            "uniform",
            "Without a penalty the weights of [CLS] are nearly uniform: their entropy is above .9 (the bound is ours).",
            _entropy,
            UNIFORM,
            (0, 1),
        ),
        Claim(
            "little",
            "Without a penalty the weights explain little: AUROC is below .6, where chance has .5 (the bound is ours).",
            _explaining,
            -LITTLE,
            (-1, 0),
        ),
        Claim(
            "depth",
            "The attention of a last layer above others is less plausible than that of a single one.",
            _shallow_less_deep,
            within=(-1, 1),
        ),
        Claim("taught", "A penalty on missing what people marked makes attention more plausible.", _taught, within=(-1, 1)),
        Claim("free", "It costs no more than .01 of accuracy.", _kept, -MARGIN, (-1, 1), gated=False),
        Claim("sharpened", "A penalty on the entropy of attention makes it more plausible: AUROC.", _sharpened, within=(-1, 1)),
        Claim("precise", "A penalty on the entropy of attention makes it more plausible: AUPRC.", _precise, within=(-1, 1)),
        Claim(
            "norms",
            "Norms are as plausible as weights, or more: at most .01 of AUROC less.",
            _norms_less_weights,
            -MARGIN,
            (-1, 1),
        ),
        Claim("gradient", "Gradients are less plausible than weights.", _weights_less_gradient, within=(-1, 1)),
    ),
    differs=(
        "Word vectors are GloVe 6B 50d, complete, lifted to 300 dimensions with lengths and angles kept; published: GloVe 840B "
        "300d.",
        "Tokens are lower-cased words by a regular expression; published: HateXplain's own tokens, and lemmas by spaCy of "
        "Yelp-HAT.",
        "The published figures are in no source: they are printed in notebooks of the authors' code. AUROC is of single runs "
        "without a seed, AUPRC and accuracy (there micro-F1) of at most three.",
        "`micro` and `macro` are of each text's weights after minmax, so that texts of any length count alike; `macro` is the "
        "same without it. Published AUROC is of the raw weights of all texts pooled, and is beside `micro of raw weights`; "
        "AUPRC is of weights after a second softmax over the text and minmax, and is beside `micro after softmax`. A word's "
        "weight is the sum over its tokens; published: tokens.",
        "Judged are texts with a marked word; published: HateXplain's posts but the normal ones. Of Yelp-HAT's reviews of 50 "
        "words AUROC has all, while the script that computes AUPRC leaves out the negative ones.",
        "Maps are read in the last layer, and penalties (entropy .01 and .1, rationale 1) are on it; published AUROC is of the "
        "last layer too, but the script that computes AUPRC reads the first. Of these penalties no such figures are published.",
        "HateXplain's rationales for training are the union over annotators in our copy; those of its test are the majority.",
        "That weights are too uniform to explain is said on a slide without a number: the entropy is that of [CLS]'s row in "
        "the last layer over log n, [CLS] included.",
    ),
    seeds=10,
    meaning=(
        "At width 100 and with batches grouped by length, attention of a single layer agrees with people far beyond chance, "
        "that of a last layer above others less. Teaching attention what people marked helps everywhere, at no clear cost but "
        "on HateXplain with one layer. Weighting by norms changes nothing, a small penalty on entropy hardly anything, and "
        "gradients are less plausible for one layer, while for three it cannot be told. Width 300 has not been run."
    ),
)
