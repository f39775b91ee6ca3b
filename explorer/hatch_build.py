"""What hatchling asks before it builds: whether the explorer's page is there."""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = ("explorer.js", "widget.js", "explorer.css", "LICENSES.txt")
STRICT = "CONOSCOPE_WITH_EXPLORER"


class Page(BuildHookInterface):
    """Says where a wheel would lack the page; refuses it if the environment asks so, as a release does."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Check the files; an editable installation finds them whenever they are built."""
        folder = Path(self.root, "src", "conoscope", "exploring", "static")
        absent = [name for name in FILES if not (folder / name).is_file()]
        if not absent or version == "editable":
            return
        line = f"the page of conoscope explore is not built ({', '.join(absent)}): type make explorer first, which needs Node"
        if os.environ.get(STRICT):
            raise RuntimeError(line)
        self.app.display_warning(f"{line}; all else is in the package")
