"""The built front end: files of `exploring/static/`, which `make explorer` writes and a wheel holds."""

from functools import cache
from importlib.resources import files
from importlib.util import find_spec

from conoscope.common.errors import ConoscopeError, listed

FOLDER = "static"
SERVED = {
    "explorer.js": "text/javascript; charset=utf-8",
    "explorer.css": "text/css; charset=utf-8",
    "LICENSES.txt": "text/plain; charset=utf-8",
}
"""The files that a page may ask for, with their types."""


@cache
def built(name: str) -> str:
    """The text of a file of the front end; ConoscopeError if it is not built."""
    try:
        return (files("conoscope.exploring") / FOLDER / name).read_text(encoding="utf-8")
    except OSError as error:
        raise ConoscopeError(
            f"the explorer's front end is not built: {name} is missing; type make explorer (it needs Node), or install a wheel, "
            "which has it"
        ) from error


def refuse_missing(*packages: str) -> None:
    """ConoscopeError if a package of the extra is not installed."""
    if absent := [package for package in packages if find_spec(package) is None]:
        raise ConoscopeError(f"explore needs {listed(absent)}, not installed; type pip install 'conoscope[explore]'")
