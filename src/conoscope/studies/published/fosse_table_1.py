"""Fosse et al. 2023, table 1: how keys, values and embeddings gather into a cone, layer by layer, in models of 1 to 5 layers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from conoscope.studies.base import Claim, Condition, Published, Row, Study
from conoscope.training.settings import Training

if TYPE_CHECKING:
    import pandas as pd

    from conoscope.studies.made import Made

DEPTHS = {"hatexplain": 5, "yelp_hat": 5, "esnli": 2}
TEXTS = {"hatexplain": 999, "yelp_hat": None, "esnli": 999}
"""Number of test texts, balanced over the classes; all of Yelp-HAT's."""
DEEP = 3
"""Smallest number of layers of a deep model."""

# fmt: off
SIM: Mapping[tuple[str, str], Sequence[Sequence[float]]] = {
    ("hatexplain", "key"): ((.7133,), (.6915, .6829), (.6985, .6878, .8418), (.6136, .6197, .7486, .8400),
                            (.6242, .6473, .7772, .9129, .9732)),
    ("hatexplain", "value"): ((.5422,), (.5104, .7400), (.6055, .6880, .8824), (.5919, .5614, .7851, .9311),
                              (.6068, .6730, .8582, .9584, .9923)),
    ("hatexplain", "hidden"): ((.3072,), (.3074, .6398), (.3071, .6577, .8006), (.3074, .5491, .7164, .8791),
                               (.3068, .6021, .7906, .9228, .9800)),
    ("yelp_hat", "key"): ((.5784,), (.6486, .5558), (.5969, .4307, .5373), (.7136, .7165, .7020, .8599),
                          (.5845, .5422, .7611, .8163, .9599)),
    ("yelp_hat", "value"): ((.3720,), (.4087, .5106), (.4615, .3707, .4941), (.4285, .6129, .8030, .9038),
                            (.4172, .6244, .7799, .9023, .9722)),
    ("esnli", "key"): ((.6568,), (.7188, .4882)),
    ("esnli", "value"): ((.5241,), (.1820, .7459)),
    ("esnli", "hidden"): ((.3523,), (.3454, .5977)),
}
"""One row per number of layers, one figure per layer; `hidden` is the input of a layer."""
ACCURACY = {
    "hatexplain": (.6246, .6246, .6366, .6396, .6276),
    "yelp_hat": (.8702, .8638, .8676, .8560, .8817),
    "esnli": (.6276, .7297),
}
# fmt: on


def _conditions() -> Iterator[Condition]:
    for corpus, depth in DEPTHS.items():
        for layers in range(1, depth + 1):
            keys = {"corpus": corpus, "layers": layers}
            training = Training(layers=layers, vectors="glove")
            yield Condition(keys, corpus, training, balanced=TEXTS[corpus], quick=corpus == "hatexplain" and layers in (1, 3, 5))


def _read(made: "Made") -> Iterator[Row]:
    from conoscope.studies.made import by_layer

    yield {"quantity": "accuracy", "value": made.accuracy()}
    sim = made.measure("sim")["sim"]
    for site in ("key", "value", "hidden"):
        yield from ({"quantity": f"sim.{site}", "layer": layer, "value": value} for layer, value in by_layer(sim, site).items())


def _published() -> Iterator[Published]:
    for (corpus, site), rows in SIM.items():
        for layers, figures in enumerate(rows, 1):
            for layer, figure in enumerate(figures, 0 if site == "hidden" else 1):
                keys = {"corpus": corpus, "layers": layers, "quantity": f"sim.{site}", "layer": layer}
                yield Published(keys, figure, "N")
    for corpus, accuracies in ACCURACY.items():
        for layers, figure in enumerate(accuracies, 1):
            yield Published({"corpus": corpus, "layers": layers, "quantity": "accuracy"}, figure, "N")


def _sims(rows: "pd.DataFrame") -> "pd.DataFrame":
    return rows[rows["quantity"].isin(("sim.key", "sim.value"))]


def _last_less_first(rows: "pd.DataFrame") -> "pd.DataFrame":
    from conoscope.studies.contrasts import difference

    deep = _sims(rows[rows["layers"] >= DEEP])
    return difference(deep[deep["layer"] == deep["layers"]], deep[deep["layer"] == 1], ("corpus", "layers", "quantity"))


def _deep_less_shallow(rows: "pd.DataFrame") -> "pd.DataFrame":
    from conoscope.studies.contrasts import difference

    sims = _sims(rows)
    last = sims[(sims["layers"] == max(DEPTHS.values())) & (sims["layer"] == sims["layers"])]
    return difference(last, sims[sims["layers"] == 1], ("corpus", "quantity"))


STUDY = Study(
    name="fosse-table-1",
    title="Cones by depth: SIM of keys and values in models of 1 to 5 layers",
    source="Fosse, Nguyen, Sébillot and Gravier 2023, Géométrie de l'auto-attention en classification (TALN), table 1",
    conditions=tuple(_conditions()),
    read=_read,
    published=tuple(_published()),
    claims=(
        Claim(
            "deeper", "In models of three layers and more, SIM is larger in the last layer than in the first.", _last_less_first
        ),
        Claim("shallow", "A model of one layer is less anisotropic than the last layer of a model of five.", _deep_less_shallow),
    ),
    differs=(
        "Word vectors are GloVe 6B 100d, so that models are 100 wide; published: GloVe 840B 300d, 300 wide.",
        "Tokens are lower-cased words by a regular expression; published: lemmas by spaCy.",
        "e-SNLI: where the full files are not there, training takes a subset of 20,000 pairs, with a separator between the two "
        "sentences; published: all pairs, without one.",
        "Yelp-HAT: all test reviews that our reader keeps, and one cut into training and validation for all seeds; published: "
        "778 reviews, cut anew in each run. Published embeddings of Yelp-HAT count [CLS] in by mistake, and are not compared.",
        "Published figures are single runs without a seed.",
    ),
    meaning=(
        "The shape of the claim is there on HateXplain: values gather from the first layer to the last in every deep "
        "model and with every seed, and keys do so in the model of five layers. It is weaker than published (.68 for the "
        "values of layer 5, not .99), and on Yelp-HAT it is not there for keys, whose SIM is largest in the first layer, "
        "while that of values grows with three layers and in most seeds with more. The published .96 to .99 of five "
        "layers are not near any of our runs, though the accuracies agree: narrow cones are not needed for them."
    ),
)
