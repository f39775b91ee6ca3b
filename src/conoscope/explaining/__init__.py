"""Explaining: attribution maps (a score for each word of a text), their plausibility and their faithfulness.

>>> from conoscope.explaining import explain
>>> for explanation in explain("runs/pure", "bistro:test", ["attention", "rollout"]): ...
"""

from conoscope.explaining import attention, chance, flow, gradients, rollouts  # noqa: F401  registers their methods
from conoscope.explaining.base import METHODS, described
from conoscope.explaining.erasing import Erasing
from conoscope.explaining.faithfulness import faithfulness
from conoscope.explaining.metrics import Judging
from conoscope.explaining.plausibility import plausibility
from conoscope.explaining.records import Explaining, Explanation, explain, write_explanations

__all__ = [
    "METHODS",
    "Erasing",
    "Explaining",
    "Explanation",
    "Judging",
    "described",
    "explain",
    "faithfulness",
    "plausibility",
    "write_explanations",
]
