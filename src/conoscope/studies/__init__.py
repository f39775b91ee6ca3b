"""Studies: published tables and claims, run again with several seeds, and judged.

>>> from conoscope.studies import reproduce
>>> reproduce("fosse-table-1", "out/table-1")
"""

from conoscope.studies import fosse_cones, fosse_table_1, plausibility
from conoscope.studies.base import Study

STUDIES: dict[str, Study] = {module.STUDY.name: module.STUDY for module in (fosse_table_1, fosse_cones, plausibility)}
"""Every study by name."""
