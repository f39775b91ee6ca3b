"""Studies: published tables and claims, reproduced with several seeds and judged.

>>> from conoscope.studies.reproducing import reproduce
>>> reproduce("fosse-table-1", "out/table-1")
"""

from conoscope.studies.base import Study
from conoscope.studies.published import (
    bonino_gates,
    course_family,
    course_layers,
    course_positions,
    course_scale,
    fosse_ablation,
    fosse_causal,
    fosse_cones,
    fosse_fine_tuning,
    fosse_table_1,
    fosse_table_2,
    kobayashi_norms,
    many_classes,
    plausibility,
)

ALL = (
    fosse_table_1,
    fosse_ablation,
    fosse_table_2,
    course_family,
    course_layers,
    course_positions,
    course_scale,
    kobayashi_norms,
    fosse_cones,
    fosse_fine_tuning,
    fosse_causal,
    plausibility,
    bonino_gates,
    many_classes,
)
STUDIES: dict[str, Study] = {module.STUDY.name: module.STUDY for module in ALL}
"""Every study by name."""
