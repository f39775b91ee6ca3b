"""Gates: what kind of gate each head is, as a map of all heads."""

from typing import TYPE_CHECKING

from conoscope.figures.base import Chart, Tables, figure, runs_of, table_of
from conoscope.figures.marks import evenly, ticks
from conoscope.figures.panels import stacked
from conoscope.figures.theme import GREY, GRID, PALETTE

if TYPE_CHECKING:
    import pandas as pd

ROOM = 440
TALLEST = 560
NAMES, BARS = 150, 90
"""Pixels of the kinds' names, and of the longest bar beside them."""
NEEDED = {False: 17, True: 11}
"""Pixels that a number needs beside others, and below others."""
COLOURS = {
    "closed": PALETTE[6],
    "directional": PALETTE[0],
    "open": PALETTE[5],
    "forward contextual": PALETTE[4],
    "backward contextual": PALETTE[1],
    "cluster": PALETTE[2],
    "instance": PALETTE[3],
    "mixed": GRID,
}
"""What is closed is grey, and what has no name is pale."""
DEEP = "directional"
"""The gate whose colour is so deep that white is read on it."""


@figure(
    "gates.names",
    question="heads",
    marks={
        "tile": "A tile is a head, coloured by the first of its gates.",
        "letters": "Letters name all gates of a head, and a line below is as long as the share of texts whose own maps give the "
        "same names: a short one says that the name holds for the mean alone.",
        "count": "Beside the map, how many heads are of each kind; a head with several gates counts for each of them.",
    },
)
def gates(tables: Tables) -> Chart | None:
    """What kind of gate each head is.

    Closed heads look at special tokens, directional ones at a few tokens whoever looks, open ones everywhere, contextual ones at
    neighbours, cluster ones within blocks, instance ones at single places of a text.
    """

    frame = table_of(tables, "gates.names", "layer", "head", "value", "gates").astype({"layer": int, "head": int})
    if frame.empty:
        return None
    return stacked({run: _row(frame[frame["run"] == run].drop(columns="run")) for run in runs_of(frame)})


def _row(frame: "pd.DataFrame") -> Chart:
    import altair as alt

    from conoscope.measures.gates import LETTERS

    kinds = [names.split(" + ") for names in frame["gates"]]
    letters = ["".join(LETTERS[name] for name in names) for names in kinds]
    told = frame.assign(gate=[names[0] for names in kinds], letters=letters)
    return alt.hconcat(_map(told), _counts(kinds, LETTERS), spacing=24)


def _map(frame: "pd.DataFrame") -> Chart:
    """Tiles with letters and lines; tiles alone where they are small."""
    import altair as alt

    heads, layers = int(frame["head"].max()), int(frame["layer"].max())
    width, height = max(4, min(44, ROOM // heads)), max(4, min(32, TALLEST // layers))
    roomy = width >= 18 and height >= 18
    base = (
        alt.Chart(frame)
        .transform_calculate(
            left="datum.head - 0.45", right="datum.head + 0.45", top="datum.layer - 0.44",
            bottom=f"datum.layer + {0.26 if roomy else 0.44}", end="datum.head - 0.45 + 0.9 * datum.value",
            under="datum.layer + 0.32", lowest="datum.layer + 0.42", middle="datum.layer - 0.07",
        )
        .encode(
            _axis(alt.X("left:Q", title="head"), heads, width),
            _axis(alt.Y("top:Q", title="layer"), layers, height, reverse=True),
        )
    )  # fmt: skip
    stability = alt.Tooltip("value:Q", title="stability", format=".2f")
    tiles = base.mark_rect(aria=False, style="tile").encode(
        _color(), x2="right:Q", y2="bottom:Q", tooltip=["layer:O", "head:O", "gates:N", stability]
    )
    lines = base.mark_rect(aria=False).encode(_color(), y="under:Q", x2="end:Q", y2="lowest:Q")
    ink = alt.condition(alt.datum.gate == DEEP, alt.value("white"), alt.value("black"))
    text = base.mark_text(fontSize=10, aria=False, style="letters").encode(x="head:Q", y="middle:Q", text="letters:N", color=ink)
    shown = (tiles, lines, text) if roomy else (tiles,)
    return alt.layer(*shown).properties(width=width * heads, height=height * layers)


def _axis(channel: "Chart", count: int, pixels: int, reverse: bool = False) -> "Chart":
    """Every number where there is room for it, else evenly spaced ones."""
    bare = channel.axis(
        ticks=False,
        domain=False,
        grid=False,
        **ticks(evenly(count, pixels, NEEDED[reverse])),
        format="d",
        labelFontSize=11,
        labelOverlap=False,
    )
    return bare.scale(domain=[0.5, count + 0.5], nice=False, zero=False, reverse=reverse)


def _color() -> "Chart":
    import altair as alt

    return alt.Color("gate:N", legend=None).scale(domain=list(COLOURS), range=list(COLOURS.values()))


def _counts(kinds: list[list[str]], letters: dict[str, str]) -> Chart:
    """How many heads are of each kind, which tells letters and colours too."""
    import altair as alt
    import pandas as pd

    rows = [
        {"gate": gate, "name": f"{letter}  {gate}", "heads": sum(gate in names for names in kinds)}
        for gate, letter in letters.items()
    ]
    # The names stand within the panel: beside it they would push the map away where it stands above.
    base = alt.Chart(pd.DataFrame(rows)).encode(
        alt.X("heads:Q", title="heads").axis(None).scale(domain=[0, len(kinds)], range=[NAMES, NAMES + BARS]),
        alt.Y("name:N", title=None, sort=None).axis(ticks=False, domain=False, labelAlign="left", labelPadding=0),
    )
    bars = base.mark_bar(aria=False, style="count").encode(_color(), tooltip=["gate:N", "heads:Q"])
    numbers = base.mark_text(align="left", dx=4, aria=False, color=GREY).encode(text="heads:Q")
    return alt.layer(bars, numbers).properties(width=NAMES + BARS, height=alt.Step(20))
