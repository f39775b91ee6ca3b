"""Statements of source 003: summary, abstract and captions of Bonino et al. 2025. The paper's text could not be read."""

from conoscope.studies.statements.base import Statement, of

GATES = "bonino-gates"
UNREAD = "its wording could not be read"

STATEMENTS = (
    Statement(
        "003",
        "summary, sentence 1",
        "Local patterns of attention and the global stream of information drive the decisions.",
        untestable="no test is described in what could be read",
    ),
    Statement(
        "003",
        "summary, sentence 2",
        "The cone index of a layer is the length of the sum of its vectors.",
        untestable="a definition: `cone_index`, of unit vectors, as in the authors' code",
    ),
    Statement("003", "summary, sentence 2", "The selection of subspaces has a direction.", of(GATES, "directed")),
    Statement(
        "003",
        "summary, sentence 2",
        "Maps of attention fall into several kinds of gates, by which tokens they look for and combine.",
        of(GATES, "several", "captioned"),
    ),
    Statement(
        "003",
        "summary, sentence 3",
        "The patterns of single heads, their concatenation and the feed-forward part all influence what is recalled.",
        of(GATES, "parts"),
    ),
    Statement(
        "003",
        "summary, sentence 4",
        "The results have consequences for the architecture of transformers and for how they are analysed while they train.",
        untestable="an outlook",
    ),
    Statement(
        "003",
        "abstract, sentence 1",
        "BERT does remarkably well on many tasks.",
        untestable="not about geometry; no model here is compared on benchmarks",
    ),
    Statement(
        "003",
        "abstract, sentence 6",
        "The content of the stream shows in how its data are distributed and in global statistics.",
        untestable="no result is given in what could be read; `stream`, `cone_index` and `vector_norms` measure it",
    ),
    Statement(
        "003",
        "abstract, sentence 7",
        "A classifier that tells variants of the virus by their RNA is right nearly always.",
        of(GATES, "accuracy"),
    ),
    Statement(
        "003",
        "theorem 4.2.1",
        "The rank of a sum is at most the sum of the ranks, and equal to it under a condition on column and row spaces.",
        untestable="a theorem, proven; bonino-gates asks of heads whether they meet its condition, in the row on subspaces",
    ),
    Statement("003", "proposition 4.2.2", "A proposition on attention, after the theorem.", untestable=UNREAD),
    Statement(
        "003",
        "definitions 6.3.1 and 6.3.4, remarks 6.3.2 and 6.3.5",
        "Two definitions and their remarks, presumably of the cone index.",
        untestable=UNREAD,
    ),
    Statement(
        "003",
        "propositions 6.3.3 and 6.3.6",
        "Two propositions, presumably bounds of the cone index.",
        untestable=f"{UNREAD}; tests check the bounds 0 and n, and the relation to SIM",
    ),
    Statement("003", "figure 1", "The architecture of BERT.", untestable="a description"),
    Statement(
        "003",
        "figure 2",
        "The lengths of queries, keys and values of a sequence are spread, in head 4 of layer 1.",
        untestable="a histogram of one sequence; bonino-gates records those of its models",
    ),
    Statement(
        "003",
        "figure 3",
        "There is a directional gate.",
        of(GATES, "captioned"),
        cases="directional",
        figures="head 9 of layer 4",
    ),
    Statement("003", "figure 4", "There is an open gate.", of(GATES, "captioned"), cases="open", figures="head 4 of layer 2"),
    Statement(
        "003",
        "figure 5",
        "There are contextual gates, forward ones and backward ones.",
        of(GATES, "captioned"),
        cases="contextual",
    ),
    Statement(
        "003",
        "figure 5",
        "One head can be both: a forward and a backward contextual gate.",
        of(GATES, "both"),
        figures="head 10 of layer 7",
    ),
    Statement("003", "figures 6 to 13", "Eight more figures.", untestable="their captions could not be read"),
    Statement("003", "table 1", "One table, presumably of accuracies.", untestable="it could not be read"),
)
