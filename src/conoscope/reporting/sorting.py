"""Rows for sorting: what the page holds of a long table, so that its script sorts the whole and shows the first of it.

Of a table of any length these are all rows, or those that are among the first by some column, upwards or downwards: sorting
them and showing the first `SHOWN` gives what sorting the whole would.
"""

import base64
import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from conoscope.common.markup import cut
from conoscope.common.terminal import printable

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

SHOWN = 100
"""How many rows of a table the page shows."""
FINER = 3
"""Decimals that numbers have here beyond those that are shown."""
DIGITS = re.compile(r"(\d+)")


def held_rows(columns: Mapping[str, "pd.Series[Any]"], places: Mapping[str, int]) -> str:
    """The columns as JSON, deflated and in base64; those with `places` are numbers, which are shown with so many decimals.

    Texts are numbered in their order, so that here and on the page they are sorted alike.
    """
    import numpy as np

    texts = {name: _numbered(column) for name, column in columns.items() if name not in places}
    keys = [texts[name][1] if name in texts else column.to_numpy(float, na_value=np.nan) for name, column in columns.items()]
    length = len(keys[0])
    chosen = np.arange(length) if length <= 2 * SHOWN * len(keys) else first_of_each(keys)
    found: list[dict[str, Any]] = []
    for name, key in zip(columns, keys, strict=True):
        if name in texts:
            found.append(_texts(texts[name][0], key[chosen]))
        else:
            found.append({"places": places[name], "values": [_number(value, places[name]) for value in key[chosen].tolist()]})
    written = json.dumps({"whole": len(chosen) == length, "columns": found}, separators=(",", ":"))
    packed = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    return base64.b64encode(packed.compress(written.encode()) + packed.flush()).decode()


def first_of_each(keys: Iterable["np.ndarray"]) -> "np.ndarray":
    """The rows that are among the first by one of the columns, upwards or downwards; missing ones come last either way."""
    import numpy as np

    first = [np.argsort(sign * key, kind="stable")[:SHOWN] for key in keys for sign in (1, -1)]
    found: np.ndarray = np.unique(np.concatenate(first))
    return found


def _numbered(column: "pd.Series[Any]") -> tuple[list[str], "np.ndarray"]:
    """The texts of a column in order, and the number of each row's text among them; nan where there is none."""
    import numpy as np
    import pandas as pd

    codes, uniques = pd.factorize(column.astype(object).where(column.notna(), None), use_na_sentinel=True)
    order = sorted(range(len(uniques)), key=lambda place: in_order(str(uniques[place])))
    ranks = np.empty(len(uniques) + 1)
    ranks[order] = np.arange(len(uniques))
    ranks[-1] = np.nan
    return [str(uniques[place]) for place in order], ranks[codes]


def in_order(text: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """What a text is sorted by: letters without case and accents, numbers within it as numbers."""
    plain = "".join(letter for letter in normalize("NFKD", text).casefold() if ord(letter) < 0x300 or ord(letter) > 0x36F)
    parts = DIGITS.split(plain[:200])
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part), text


def _texts(words: list[str], ranks: "np.ndarray") -> dict[str, Any]:
    """The texts of some rows as they are shown, still in order, and the place of each row's text among them."""
    rows = [None if math.isnan(rank) else int(rank) for rank in ranks.tolist()]
    there = sorted({rank for rank in rows if rank is not None})
    place = {rank: number for number, rank in enumerate(there)}
    return {
        "words": [printable(cut(words[rank])) for rank in there],
        "at": [None if rank is None else place[rank] for rank in rows],
    }


def _number(value: float, places: int) -> float | int | str | None:
    """A number finer than it is shown; a string where JSON has none, None where it is missing."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == int(value):
        return int(value)
    return round(value, places + FINER) if abs(value) >= 10.0**-places else float(f"{value:.4g}")
