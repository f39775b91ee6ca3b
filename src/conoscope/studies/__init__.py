"""Studies: published tables and claims, run again with several seeds, and judged.

>>> from conoscope.studies import reproduce
>>> reproduce("fosse-table-1", "out/table-1")
"""

from conoscope.studies import course_family, fosse_table_1, many_classes
from conoscope.studies.base import Study

STUDIES: dict[str, Study] = {module.STUDY.name: module.STUDY for module in (fosse_table_1, course_family, many_classes)}
"""Every study by name."""
