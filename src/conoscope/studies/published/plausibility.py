"""Plausibility: whether attention, norms, rollouts and gradients point to the words that people marked."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from conoscope.studies.base import Claim, Condition, Published, Row, Study
from conoscope.studies.contrasts import difference, where
from conoscope.training.settings import Training

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

TEXTS = {"hatexplain": "hatexplain:test", "yelp_hat": "yelp_hat:test-50"}
SHALLOW, DEEP = 1, 3
PENALTIES: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "entropy": {"entropy_penalty": 0.01},
    "rationale": {"rationale_penalty": 1.0},
}
"""Penalties on the attention of [CLS] in the last layer, added to the loss."""
MAPS = ("attention", "norms", "columns", "rollout", "rollout_norms", "gradient")
"""Integrated gradients are left out: they need Captum, which is not always installed."""
BY, CORPUS = ("corpus", "layers", "average"), ("corpus", "average")
MARGIN = 0.01
"""What may be lost where one map is said to be no worse than another."""

ATTENTION = {
    ("hatexplain", SHALLOW): {"auroc": 0.7085, "auprc": 0.5218, "accuracy": 0.6309},
    ("hatexplain", DEEP): {"auroc": 0.5199, "auprc": 0.4696, "accuracy": 0.6246},
    ("yelp_hat", SHALLOW): {"auroc": 0.7116, "auprc": 0.3768, "accuracy": 0.9056},
    ("yelp_hat", DEEP): {"auroc": 0.6256, "auprc": 0.2955, "accuracy": 0.9053},
}
"""AUROC of one run; AUPRC and micro-F1, which is accuracy, are means of at most three."""


def _conditions() -> Iterator[Condition]:
    for corpus, texts in TEXTS.items():
        for layers in (SHALLOW, DEEP):
            for penalty, added in PENALTIES.items():
                keys = {"corpus": corpus, "layers": layers, "penalty": penalty}
                training = Training(layers=layers, vectors="glove", penalty_layers=(layers, layers), **added)
                quick = corpus == "hatexplain" and (layers == SHALLOW or penalty == "none") and penalty != "entropy"
                yield Condition(keys, corpus, training, texts=texts, quick=quick)


def _read(made: "Made") -> Iterator[Row]:
    yield {"quantity": "accuracy", "value": made.accuracy()}
    found = made.plausibility(*MAPS)
    wanted = found["metric"].isin(("auroc", "auprc")) | ((found["metric"] == "density") & (found["map"] == "random"))
    for row in found[wanted].dropna(subset="value").to_dict("records"):
        yield {"quantity": row["metric"], "map": row["map"], "average": row["average"], "value": float(row["value"])}


def _published() -> Iterator[Published]:
    for (corpus, layers), figures in ATTENTION.items():
        for quantity, figure in figures.items():
            told = {} if quantity == "accuracy" else {"map": "attention", "average": "micro"}
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
    return difference(_auroc(rows, penalty="entropy"), _auroc(rows), BY)


def _norms_less_weights(rows: "pd.DataFrame") -> "pd.DataFrame":
    return difference(_auroc(rows, "norms"), _auroc(rows), BY)


def _weights_less_gradient(rows: "pd.DataFrame") -> "pd.DataFrame":
    return difference(_auroc(rows), _auroc(rows, "gradient"), BY)


def _kept(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Accuracy with the rationale penalty minus that without."""
    accuracy = where(rows, quantity="accuracy")
    return difference(where(accuracy, penalty="rationale"), where(accuracy, penalty="none"), ("corpus", "layers"))


STUDY = Study(
    name="plausibility",
    title="Plausibility: attention and other maps against the words that people marked",
    source="Fosse, Nguyen, Sébillot and Gravier 2023, Géométrie de l'auto-attention en classification (TALN), and its code",
    conditions=tuple(_conditions()),
    read=_read,
    published=tuple(_published()),
    claims=(
        Claim("chance", "The attention of one layer is more plausible than chance.", _above_chance),
        Claim(
            "depth", "The attention of a last layer above others is less plausible than that of a single one.", _shallow_less_deep
        ),
        Claim("taught", "A penalty on missing what people marked makes attention more plausible.", _taught),
        Claim("free", "It costs no more than .01 of accuracy.", _kept, -MARGIN),
        Claim("sharpened", "A small penalty on the entropy of attention makes it more plausible.", _sharpened),
        Claim("norms", "Norms are as plausible as weights, or more: at most .01 of AUROC less.", _norms_less_weights, -MARGIN),
        Claim("gradient", "Gradients are less plausible than weights.", _weights_less_gradient),
    ),
    differs=(
        "Word vectors are GloVe 6B 100d, and tokens lower-cased words; published: GloVe 840B 300d, and lemmas.",
        "Judged are texts with a marked word, after minmax in each; published: HateXplain's posts but the normal ones, all of "
        "Yelp-HAT's reviews of 50 words, after a second softmax and minmax. Words, not tokens, are counted.",
        "Maps are read in the last layer, and penalties (entropy .01, rationale 1) are on it; published AUROC is of the last "
        "layer too, but for AUPRC at three layers the scripts do not say, and of these penalties no such figures are published.",
        "HateXplain's rationales for training are the union over annotators in our copy; those of its test are the majority.",
        "Published AUROC is of single runs without a seed, AUPRC and accuracy (there micro-F1) of at most three.",
    ),
    meaning=(
        "Attention of a single layer agrees with people far beyond chance, that of a last layer above others less: as "
        "published, and with every seed. Teaching attention what people marked helps everywhere, at no clear cost but on "
        "HateXplain with one layer. Weighting by norms changes nothing, a small penalty on entropy hardly anything, and "
        "gradients are less plausible for one layer, while for three it cannot be told."
    ),
)
