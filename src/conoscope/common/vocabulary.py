"""Names that tables contain. Measures write them; figures and findings read them, without torch."""

KINDS = ("cls", "sep", "special", "punctuation", "other")
"""Kinds of tokens."""
GATES = ("closed", "directional", "open", "forward contextual", "backward contextual", "cluster", "instance")
"""The gate classes of heads; a head in none of them is mixed."""
MIXED = "mixed"
LETTERS = dict(zip((*GATES, MIXED), "CDOFBKI.", strict=True))
"""One letter for each gate class, where space is short."""
