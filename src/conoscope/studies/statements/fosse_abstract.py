"""Statements of source 000: the abstract of Fosse et al. 2023, in English and in French, which say the same."""

from conoscope.studies.statements.base import Statement, of

CONES, TUNED, TABLE_1, TABLE_2 = "fosse-cones", "fosse-fine-tuning", "fosse-table-1", "fosse-table-2"

STATEMENTS = (
    Statement(
        "000",
        "abstract, sentence 1",
        "Within a sentence, the embeddings of BERT lie close to one direction.",
        untestable="BERT is not in the data, and no bound would decide it; fosse-fine-tuning has SIM of MiniLM before and after",
    ),
    Statement(
        "000",
        "abstract, sentence 1",
        "The embeddings of a sentence gather so above all in a classifier.",
        of(TUNED, "reinforced", "everywhere") + of(CONES, "reinforced"),
    ),
    Statement(
        "000",
        "abstract, sentence 3",
        "The direction that embeddings take is that of the sentence's class.",
        of(TUNED, "apart", "nearest", "controls") + of(CONES, "apart", "nearest", "controls"),
    ),
    Statement(
        "000",
        "abstract, sentence 4",
        "Keys and values together see to it that representations form a cone.",
        untestable="no intervention on keys or values alone is described; tables 1 and 2 have what each of them does",
    ),
    Statement(
        "000",
        "abstract, sentence 5",
        "The cone forms step by step, as layers are stacked.",
        of(TABLE_1, "deeper", "hierarchical"),
    ),
    Statement(
        "000",
        "abstract, sentence 6",
        "The cone stays when a penalty changes how attention is distributed.",
        of(TABLE_2, "stays"),
    ),
    Statement(
        "000",
        "abstract, sentence 6",
        "The model makes up for constraints on attention weights with its values and keys.",
        of(TABLE_2, "values-follow", "values-narrower", "longer"),
    ),
)
