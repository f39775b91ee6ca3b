"""Which question each measure helps to answer."""

MEASURES = {
    "cones": (
        *("sim", "intra_sim", "cone_index", "self_sim", "max_explained_variance", "effective_rank"),
        *("participation_ratio", "top_directions", "variance", "vector_norms"),
    ),
    "classes": ("class_cones", "capacity"),
    "heads": ("heads", "gates", "directionality", "attention_entropy", "class_maps"),
    "mixing": ("norms", "frequency", "mixing"),
    "stream": ("stream",),
}
"""The measures of each question (`common.questions`), in the order in which a report shows their tables."""


def question_of(measure: str) -> tuple[str, int]:
    """The question that a measure helps to answer, and the measure's position under that question."""
    return next((question, names.index(measure)) for question, names in MEASURES.items() if measure in names)
