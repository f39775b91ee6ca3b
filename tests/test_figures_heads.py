"""Figures of single heads: what is drawn is what the tables say."""

import base64
import json
import struct
import zlib
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conoscope.figures import FIGURES, save, svg
from conoscope.figures.gates import COLOURS
from conoscope.figures.marks import cut
from conoscope.figures.pictures import picture
from conoscope.gates import gate_map
from conoscope.measures.gates import LETTERS
from drawings import BUDGET, WIDEST, channels, marks_of, parts_of, rows_of, size, spec_of, width_of

HOSTILE = ("x" * 10_000, "</script><b>", "\u202eabc", "", "😀" * 40, "a.b[0]", "\ud800")
NAMES = tuple(LETTERS)


def by_head(value: Callable[[int, int], float], layers: int, heads: int, runs: Sequence[str] = (), **keys: Any) -> pd.DataFrame:
    at = product(runs or [""], range(1, layers + 1), range(1, heads + 1))
    rows = [{"run": run, "layer": layer, "head": head, "value": value(layer, head), **keys} for run, layer, head in at]
    return pd.DataFrame(rows) if runs else pd.DataFrame(rows).drop(columns="run")


def every_table(layers: int, heads: int, runs: Sequence[str] = (), classes: Sequence[str] = ("neg", "pos")) -> dict[str, Any]:
    """Each table that a figure of heads is drawn from, of any shape, with numbers from 0 to 1."""
    draw = np.random.default_rng(0)

    def of(**keys: Any) -> pd.DataFrame:
        return by_head(lambda *_: float(draw.uniform(0.2, 1)), layers, heads, runs, **keys)

    names = of()
    names["gates"] = [NAMES[at % len(NAMES)] + (" + instance" if not at % len(NAMES) else "") for at in range(len(names))]
    places = pd.DataFrame(list(product(range(1, 17), range(1, 17))), columns=["query", "key"])
    maps = of().drop(columns="value").merge(places, how="cross")
    kinds = [("self", "all"), ("first", "all"), *(("kind", kind) for kind in ("cls", *HOSTILE[:4]))]
    bins = [of(site=site, low=2 ** (at / 16), count=at % 7 + 1) for site in ("query", "key", "value") for at in range(24, 72)]
    return {
        "sim": pd.concat([of(site=site) for site in ("query", "key", "value")]),
        "attention_entropy": pd.concat([of(row=row) for row in ("all", "cls", "cls_to_others")]),
        "heads": pd.concat([of(what=what, kind=kind) for what, kind in kinds]),
        "directionality": pd.concat([of(map=name, rank=1.0, skew_share=0.5) for name in ("query-key", "value-output", "scores")]),
        "gates.names": names,
        "gates.maps": maps.assign(value=draw.exponential(0.05, len(maps))),
        "class_maps:heads=1.1": pd.concat([_one_map(runs, label, draw) for label in classes]),
        "vector_norms.histogram": pd.concat(bins),
    }


def _one_map(runs: Sequence[str], label: str, draw: np.random.Generator) -> pd.DataFrame:
    places = pd.DataFrame(list(product(range(20), range(20))), columns=["query", "key"])
    heads = by_head(lambda *_: 0.0, 1, 1, runs, **{"class": label})
    return heads.drop(columns="value").merge(places, how="cross").assign(value=draw.uniform(0.01, 0.1, 400 * len(heads)))


OURS = [
    "sim-heads", "entropy-heads", "looks", "directionality", "gates", "attention-maps", "class-maps", "norm-histograms"
]  # fmt: skip


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    ("layers", "heads", "runs"),
    [(1, 1, ()), (3, 2, ("a", "b")), (2, 16, HOSTILE[:6]), (48, 4, ())],
    ids=("one head", "two runs", "hostile runs", "many layers"),
)
def test_every_shape_is_drawn_no_wider_than_a_page(name: str, layers: int, heads: int, runs: Sequence[str]) -> None:
    chart = FIGURES[name].draw(every_table(layers, heads, runs))
    if heads == 1 and name in ("sim-heads", "entropy-heads"):
        assert chart is None  # the curves tell as much
        return
    assert chart is not None
    image = svg(chart)
    assert width_of(image) <= WIDEST
    assert "</script>" not in image


@pytest.mark.parametrize("name", OURS)
def test_a_table_without_rows_is_not_drawn(name: str) -> None:
    assert FIGURES[name].draw({table: frame[:0] for table, frame in every_table(2, 2).items()}) is None


@pytest.mark.parametrize("name", OURS)
def test_twelve_layers_of_twelve_heads_fit_a_page(name: str) -> None:
    assert size(name, every_table(12, 12)) < BUDGET


@pytest.mark.parametrize("name", OURS)
def test_hovering_tells_numbers_and_captions_say_how_to_read(name: str) -> None:
    assert any("tooltip" in unit["encoding"] for unit in parts_of(spec_of(name, every_table(2, 2))))
    assert FIGURES[name].title
    assert len(FIGURES[name].caption) > 100


@pytest.mark.parametrize("name", OURS)
def test_one_run_is_not_named_and_several_are(name: str) -> None:
    assert "first run" not in json.dumps(spec_of(name, every_table(2, 2, ["first run"])))
    both = json.dumps(spec_of(name, every_table(2, 2, ["first run", "second run"])))
    assert "first run" in both
    assert "second run" in both


def test_a_cell_is_a_head_and_vectors_of_all_heads_are_left_out() -> None:
    sim = by_head(lambda layer, head: layer / 4 + head / 16, 2, 3, site="key")
    whole = pd.DataFrame([{"layer": 1, "head": None, "value": 0.9, "site": "key"}])
    found = spec_of("sim-heads", {"sim": pd.concat([sim, whole.astype({"head": "Int64"})])})
    assert {(row["layer"], row["head"]): row["value"] for row in rows_of(found)} == {
        (layer, head): layer / 4 + head / 16 for layer in (1, 2) for head in (1, 2, 3)
    }
    (panel,) = found["concat"]
    assert panel["title"] == ["keys"]


def test_colours_begin_at_zero_or_at_the_least_cosine_if_it_is_below() -> None:
    for least in (0.3, -0.25):
        found = spec_of("sim-heads", {"sim": by_head(lambda _, head, low=least: low if head == 1 else 0.8, 1, 2, site="key")})
        scales = [unit["encoding"]["color"]["scale"] for unit in parts_of(found) if "scale" in unit["encoding"]["color"]]
        assert scales == [{"scheme": "viridis", "domain": [min(0.0, least), 1.0]}]


@pytest.mark.parametrize(("layers", "heads", "written"), [(12, 12, True), (12, 28, False), (40, 12, False)])
def test_numbers_are_written_where_they_can_be_read(layers: int, heads: int, written: bool) -> None:
    entropy = {"attention_entropy": by_head(lambda *_: 0.5, layers, heads, row="all")}
    assert ("text" in marks_of(spec_of("entropy-heads", entropy))) == written


def test_the_entropy_is_of_all_rows_and_of_the_classifying_token() -> None:
    found = spec_of("entropy-heads", every_table(1, 2))
    assert [panel["title"] for panel in found["concat"]] == [["all tokens"], ["[CLS] or last token"]]


def test_what_no_head_looks_at_is_left_out_and_what_is_the_same_is_drawn_once() -> None:
    parts = [("self", "all", 0.09), ("next", "all", 0.4), ("first", "all", 0.3), ("kind", "cls", 0.3), ("kind", "rude", 0.2)]
    heads = [by_head(lambda *_, most=most: most, 2, 2, what=what, kind=kind) for what, kind, most in parts]
    found = spec_of("looks", {"heads": pd.concat([*heads, by_head(lambda *_: 4.0, 2, 2, what="entropy", kind="all")])})
    assert [panel["title"] for panel in found["concat"]] == [["next token"], ["[CLS]"], ["rude"]]


def test_a_kind_of_a_users_own_may_be_called_as_a_place_is() -> None:
    heads = [by_head(lambda *_, most=most: most, 1, 1, what=what, kind=kind) for what, kind, most in
             (("self", "all", 0.5), ("kind", "self", 0.2), ("kind", "all", 0.7))]  # fmt: skip
    found = spec_of("looks", {"heads": pd.concat(heads)})
    assert [panel["title"] for panel in found["concat"]] == [["itself"], ["self"], ["all"]]
    assert [row["value"] for row in rows_of(found)] == [0.5, 0.2, 0.7]


def test_shares_of_the_width_are_written_and_coloured_and_directions_told_on_hovering() -> None:
    table = by_head(lambda _, head: 16.0 * head, 1, 3, map="query-key", skew_share=0.5).assign(rank=[60.0, 64.0, 62.0])
    found = spec_of("directionality", {"directionality": table})
    assert [(row["directions"], row["value"]) for row in rows_of(found)] == [(16, 0.25), (32, 0.5), (48, 0.75)]
    assert [unit["encoding"]["text"]["field"] for unit in parts_of(found) if unit["mark"]["type"] == "text"] == ["value"]
    assert {tuple(color["scale"]["domain"]) for color in channels(found, "color") if "scale" in color} == {(0.2, 1)}


@pytest.mark.parametrize("name", ["gates", "sim-heads", "attention-maps"])
@pytest.mark.parametrize(("layers", "heads"), [(6, 12), (12, 16)])
def test_every_head_and_layer_has_its_number_where_there_is_room(name: str, layers: int, heads: int) -> None:
    image = svg(FIGURES[name].draw(every_table(layers, heads)))
    for number in range(1, max(layers, heads) + 1):
        assert f">{number}</text>" in image


def test_tiles_show_the_first_gate_letters_all_and_counts_each() -> None:
    names = by_head(lambda _, head: head / 4, 1, 3).assign(gates=["closed + instance", "closed", "mixed"])
    found = spec_of("gates", {"gates.names": names})
    tiles = [row for row in rows_of(found) if "letters" in row]
    assert [(row["gate"], row["letters"], row["value"]) for row in tiles] == [
        ("closed", "CI", 0.25), ("closed", "C", 0.5), ("mixed", ".", 0.75)
    ]  # fmt: skip
    counts = {row["gate"]: row["heads"] for row in rows_of(found) if "heads" in row}
    assert counts == dict.fromkeys(LETTERS, 0) | {"closed": 2, "instance": 1, "mixed": 1}


def test_every_gate_has_a_colour_of_its_own_and_the_letters_of_the_printed_map() -> None:
    assert list(COLOURS) == list(LETTERS)
    assert len(set(COLOURS.values())) == len(COLOURS)
    names = by_head(lambda *_: 1.0, 1, 8).assign(gates=NAMES, stability=1.0, n=16)
    letters = [row["letters"] for row in rows_of(spec_of("gates", {"gates.names": names})) if "letters" in row]
    assert gate_map(names).splitlines()[2].split()[1:] == letters


def test_the_line_of_a_tile_is_as_long_as_its_share_of_texts() -> None:
    found = spec_of("gates", {"gates.names": by_head(lambda *_: 0.5, 1, 1).assign(gates="open")})
    (end,) = {step["calculate"] for unit in parts_of(found) for step in unit.get("transform", ()) if step["as"] == "end"}
    assert end == "datum.head - 0.45 + 0.9 * datum.value"


def pixels(url: str) -> Any:
    """The steps of colour of an image, one for each of its pixels; the reader knows no more than is needed here."""
    held = base64.b64decode(url.removeprefix("data:image/png;base64,"))
    chunks, at = {}, 8
    while at < len(held):
        (length,) = struct.unpack(">I", held[at : at + 4])
        name, inside = held[at + 4 : at + 8], held[at + 8 : at + 8 + length]
        assert struct.unpack(">I", held[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + inside)
        chunks[name], at = inside, at + 12 + length
    width, height, bits = struct.unpack(">IIB", chunks[b"IHDR"][:9])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * bits // 8)
    rows: list[Any] = []
    for how, *line in lines.tolist():
        rows.append(np.array(line) + (rows[-1] if how == 2 else 0))
    packed = np.stack(rows)
    return np.stack((packed >> 4, packed & 15), axis=-1).reshape(height, width)


@pytest.mark.parametrize(("rows", "columns", "least"), [(1, 1, 1), (3, 5, 7), (16, 16, 51), (128, 128, 280)])
def test_a_picture_holds_each_number_as_a_square_of_pixels(rows: int, columns: int, least: int) -> None:
    shares = np.random.default_rng(0).uniform(0, 1, (rows, columns))
    found = pixels(picture(shares, least))
    scale = found.shape[1] // columns
    assert found.shape == (rows * scale, columns * scale)
    assert least <= found.shape[1] < least + 2 * columns
    assert (found == np.floor(shares * 16).repeat(scale, axis=0).repeat(scale, axis=1)).all()


def maps_of(*matrices: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {"layer": 1, "head": head, "query": query + 1, "key": key + 1, "value": float(value)}
        for head, matrix in enumerate(matrices, 1)
        for (query, key), value in np.ndenumerate(matrix)
    )


def test_an_image_is_a_head_bright_where_its_own_weight_is_largest() -> None:
    diagonal, column = np.eye(16) * 0.8, np.zeros((16, 16))
    column[:, 3], column[:, 5] = 0.1, 0.025
    rows = [row for row in rows_of(spec_of("attention-maps", {"gates.maps": maps_of(diagonal, column)})) if "url" in row]
    assert [(row["layer"], row["head"], row["largest"]) for row in rows] == [(1, 1, 0.8), (1, 2, 0.1)]
    steps = [pixels(row["url"]) for row in rows]
    steps = [found[:: len(found) // 16, :: len(found) // 16] for found in steps]
    assert (steps[0] == np.eye(16) * 15).all()
    assert (steps[1][:, 3] == 15).all()
    assert (steps[1][:, 5] == 8).all(), "a quarter of the weight is half of the scale"
    assert steps[1].sum() == 16 * (15 + 8)


def test_a_head_that_looks_nowhere_is_dark() -> None:
    (row,) = [row for row in rows_of(spec_of("attention-maps", {"gates.maps": maps_of(np.zeros((16, 16)))})) if "url" in row]
    assert not pixels(row["url"]).any()


def test_the_gates_of_a_map_are_told_where_they_are_known() -> None:
    maps, names = maps_of(np.eye(16), np.eye(16)), by_head(lambda *_: 1.0, 1, 2).assign(gates=["open", "closed + instance"])
    rows = [row for row in rows_of(spec_of("attention-maps", {"gates.maps": maps, "gates.names": names})) if "url" in row]
    assert [row["gates"] for row in rows] == ["open", "closed + instance"]


@pytest.mark.parametrize(("ending", "sign"), [("svg", b"data:image/png"), ("pdf", b"/Subtype /Image")])
def test_images_are_in_what_is_printed(ending: str, sign: bytes, tmp_path: Path) -> None:
    chart = FIGURES["attention-maps"].draw(every_table(2, 3))
    assert save(chart, tmp_path / f"maps.{ending}").read_bytes().count(sign) == 6


def test_of_many_heads_some_layers_are_drawn() -> None:
    rows = [row for row in rows_of(spec_of("attention-maps", every_table(40, 16))) if "url" in row]
    assert len(rows) <= 384
    assert sorted({row["layer"] for row in rows}) == list(range(1, 41, 2))


def test_a_class_has_a_picture_on_the_scale_of_its_head() -> None:
    cells = [(1, "neg", 0, 1, 0.4), (1, "pos", 2, 2, 0.2), (2, "neg", 0, 0, 0.1)]
    table = pd.DataFrame(cells, columns=["head", "class", "query", "key", "value"]).assign(layer=1)
    found = spec_of("class-maps", {"class_maps:heads=1.1": table[:2], "class_maps:heads=1.2": table[2:]})
    assert [row["title"] for row in found["vconcat"]] == ["layer 1, head 1", "layer 1, head 2"]
    assert [panel["title"] for row in found["vconcat"] for panel in row["concat"]] == ["neg", "pos", "neg"]
    steps = [pixels(row["url"]) for row in rows_of(found) if "url" in row]
    assert [found.max() for found in steps] == [15, 8, 15]
    assert [tuple(np.argwhere(found)[0] * 3 // found.shape[0]) for found in steps[:2]] == [(0, 1), (2, 2)]
    assert [(row["query"], row["key"], row["value"]) for row in rows_of(found) if "key" in row] == [cell[2:] for cell in cells]


def histogram(site: str, counts: dict[int, int], layer: int = 1, head: int = 1) -> pd.DataFrame:
    """Rows as they are counted, sixteen bins to a doubling."""
    rows = [
        {"site": site, "layer": layer, "head": head, "low": 2 ** (at / 16), "count": n, "value": 1.0} for at, n in counts.items()
    ]
    return pd.DataFrame(rows)


def outline(*tables: pd.DataFrame) -> list[tuple[float, float]]:
    found = spec_of("norm-histograms", {"vector_norms.histogram": pd.concat(tables)})
    return [(row["length"], row["top"]) for row in rows_of(found)]


def test_two_bins_are_drawn_as_one_and_the_highest_stands_just_below_the_layer_above() -> None:
    heads = (histogram("key", {32: 1, 33: 2, 34: 3, 48: 1}), histogram("key", {34: 3}, head=2))
    assert outline(*heads) == [(4.0, 0.55), (4.36, 0.1), (4.76, 1.0), (8.0, 0.85), (8.72, 1.0)]


def test_vectors_of_one_length_are_one_narrow_block() -> None:
    assert outline(histogram("hidden", {48: 1000})) == [(8.0, 0.1), (8.72, 1.0)]
    found = spec_of("norm-histograms", {"vector_norms.histogram": histogram("hidden", {48: 1000})})
    low, high = next(parts_of(found))["encoding"]["x"]["scale"]["domain"]
    assert high / low == pytest.approx(4)


def test_lengths_of_zero_are_not_drawn_and_alone_make_no_figure() -> None:
    zero = histogram("key", {0: 5}).assign(low=0.0)
    assert FIGURES["norm-histograms"].draw({"vector_norms.histogram": zero}) is None
    assert outline(zero, histogram("key", {48: 1})) == [(8.0, 0.1), (8.72, 1.0)]


def test_the_median_is_told_of_each_layer() -> None:
    tables = [histogram("key", {32: 10, 48: 11}), histogram("key", {32: 11, 48: 10}, layer=2)]
    rows = rows_of(spec_of("norm-histograms", {"vector_norms.histogram": pd.concat(tables)}))
    assert {row["layer"]: row["median"] for row in rows} == {1: 8.35, 2: 4.18}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_text_of_any_kind_is_cut_to_what_there_is_room_for(text: str) -> None:
    short = cut(text, 12)
    assert 0 < len(short) <= 12
    assert short.isprintable()
    short.encode()


def test_wide_characters_take_two_columns_and_short_texts_stay() -> None:
    assert cut("😀" * 40, 12) == "😀" * 5 + "…"
    assert cut("twelve chars", 12) == "twelve chars"
    assert cut("thirteen char", 12) == "thirteen ch…"


def test_classes_of_hostile_names_are_drawn() -> None:
    image = svg(FIGURES["class-maps"].draw(every_table(1, 1, classes=HOSTILE[:6])))
    assert image.count("<image") == 6
    assert "x" * 100 not in image
