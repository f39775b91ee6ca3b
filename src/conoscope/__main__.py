"""`python -m conoscope`: the command line."""

import sys

from conoscope.cli import main

if __name__ == "__main__":
    sys.exit(main())
