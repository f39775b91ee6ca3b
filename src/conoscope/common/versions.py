"""The versions of conoscope, Python and the packages that numbers depend on."""

import platform
from importlib.metadata import version

from conoscope import __version__

PACKAGES = ("torch", "transformers", "tokenizers", "numpy")


def versions() -> dict[str, str]:
    """The versions by package name, as provenance records them."""
    return {"conoscope": __version__, **{name: version(name) for name in PACKAGES}, "python": platform.python_version()}
