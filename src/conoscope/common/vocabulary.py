"""Vocabulary: names that tables contain. Measures write them; figures and findings read them, without torch."""

KINDS = ("cls", "sep", "special", "punctuation", "other")
"""Kinds of tokens."""
GATES = ("closed", "directional", "open", "forward contextual", "backward contextual", "cluster", "instance")
"""What a head can be; one that is none of them is mixed."""
MIXED = "mixed"
LETTERS = dict(zip((*GATES, MIXED), "CDOFBKI.", strict=True))
"""What stands for a gate where there is little room."""
