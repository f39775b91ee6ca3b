"""The old place of survey()."""

from conoscope.corpora.describe import Survey as Survey
from conoscope.corpora.describe import survey as survey
