"""Claims of studies that no source states: those of other papers, of the authors' notebooks, and of our own invention."""

from collections.abc import Mapping

OURS = "ours"
"""Where a claim comes from that is listed nowhere."""
NOTEBOOKS = "the authors' notebooks"
BEYOND: Mapping[tuple[str, str], str] = {
    ("fosse-table-2", "keys-reverse"): NOTEBOOKS,
    ("fosse-fine-tuning", "classes"): NOTEBOOKS,
    ("fosse-cones", "opposite"): NOTEBOOKS,
    ("plausibility", "depth"): NOTEBOOKS,
    ("plausibility", "sharpened"): "Nguyen et al. 2022",
    ("plausibility", "precise"): "Nguyen et al. 2022",
    ("kobayashi-norms", "mixing"): "Kobayashi et al. 2021",
    ("kobayashi-norms", "depth"): "Kobayashi et al. 2021",
}
"""Where claims come from that are stated or printed outside the five sources."""
