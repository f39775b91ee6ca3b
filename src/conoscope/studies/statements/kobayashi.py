"""Statements of source 004: the slides of Kobayashi et al. 2020. A place is what its slide is about."""

from conoscope.studies.statements.base import Statement, of

NORMS = "kobayashi-norms"

STATEMENTS = (
    Statement(
        "004",
        "background",
        "Models of self-attention lead the GLUE benchmark, with scores up to 90.6.",
        untestable="not about geometry; no model here is compared on benchmarks",
    ),
    Statement(
        "004",
        "previous studies",
        "Analyses of weights alone leave out the vectors and their transformations, and may mislead.",
        of(NORMS, "discounted", "beside-words"),
    ),
    Statement(
        "004",
        "contribution",
        "An analysis of norms does not mislead.",
        untestable="nothing measures being misled; whether norms are more plausible than weights is in plausibility",
    ),
    Statement(
        "004",
        "rewriting of self-attention",
        "Self-attention is a sum of transformed vectors f(x), multiplied by weights, and a bias.",
        untestable="an identity: the tests of capture compare the sum with what the module returns",
    ),
    Statement(
        "004",
        "mixed amount and weight",
        "How much of a token is mixed in is not the same as its weight, since f(x) has a length of its own.",
        of(NORMS, "short", "beside-words"),
    ),
    Statement("004", "proposal", "What is mixed in of a token is measured by ‖α f(x)‖.", untestable="a definition: `norms`"),
    Statement(
        "004",
        "setup",
        "BERT-base has 144 heads; the texts are 992 pairs of Wikipedia paragraphs (of Clark et al.).",
        untestable="a fact about the model and the data, which the studies do not have; --model takes any other",
    ),
    Statement(
        "004",
        "weights by layer (cited: Clark et al. 2019)",
        "In early layers, weights lean to [CLS].",
        of(NORMS, "peaks"),
        cases="cls, early",
    ),
    Statement(
        "004",
        "weights by layer (cited: Clark et al. 2019)",
        "In the middle layers, weights lean to [SEP].",
        of(NORMS, "peaks"),
        cases="sep, middle",
    ),
    Statement(
        "004",
        "weights by layer (cited: Clark et al. 2019)",
        "In deep layers, weights lean to full stops and commas.",
        of(NORMS, "peaks"),
        cases="stops, late",
    ),
    Statement(
        "004",
        "weights beside norms",
        "The two analyses give largely different results.",
        of(NORMS, "discounted", "beside-words"),
    ),
    Statement(
        "004",
        "weights beside norms",
        "Only a little is taken from special tokens, full stops and commas.",
        of(NORMS, "discounted"),
    ),
    Statement("004", "weights beside norms", "Most of what is mixed in is of the remaining tokens.", of(NORMS, "most")),
    Statement(
        "004",
        "detailed analysis of [SEP]",
        "On [SEP], the weight and the length of f(x) cancel out.",
        of(NORMS, "cancel-out"),
        cases="sep",
    ),
    Statement(
        "004",
        "detailed analysis of [SEP]",
        "On [CLS], the weight and the length of f(x) cancel out too.",
        of(NORMS, "cancel-out"),
        cases="cls",
    ),
    Statement(
        "004",
        "detailed analysis of [SEP]",
        "On full stops and commas, the weight and the length of f(x) cancel out too.",
        of(NORMS, "cancel-out"),
        cases="stops",
    ),
    Statement(
        "004",
        "detailed analysis of [SEP]",
        "The f(x) of [CLS], [SEP], full stops and commas is short.",
        of(NORMS, "short"),
    ),
    Statement(
        "004",
        "relation with frequency",
        "Words that are very frequent matter little for what pre-training asks.",
        untestable="an intuition of the authors; what matters for pre-training is not measured",
    ),
    Statement(
        "004",
        "relation with frequency",
        "The rarer a token, the longer its f(x): a strong correlation.",
        of(NORMS, "frequency", "strong"),
        figures="Spearman's ρ = .75",
    ),
    Statement(
        "004",
        "relation with frequency, summary",
        "BERT discounts very frequent words by the length of f(x).",
        of(NORMS, "frequency"),
    ),
    Statement(
        "004",
        "summary",
        "Heads take only a little from particular tokens.",
        of(NORMS, "discounted", "cancel-out"),
    ),
    Statement(
        "004",
        "summary",
        "Heads do so although the weights on these tokens are high.",
        untestable="the records have weights by kind of token, but no share of the tokens that would be their measure",
    ),
)
