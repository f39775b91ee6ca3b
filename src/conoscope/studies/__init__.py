"""Studies: published tables and claims, run again with several seeds, and judged.

>>> from conoscope.studies import reproduce
>>> reproduce("fosse-table-1", "out/table-1")
"""

from conoscope.studies import bonino_gates, fosse_cones, fosse_table_1, fosse_table_2, kobayashi_norms
from conoscope.studies.base import Study

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY for module in (fosse_table_1, fosse_table_2, fosse_cones, kobayashi_norms, bonino_gates)
}
"""Every study by name."""
