"""Gates: made-up maps of every kind, every score against its definition, and what must not change them."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from architectures import SHAPES, padded, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import traces_of
from conoscope.capture.token_kinds import CLS, OTHER, PAD, SEP, SPECIAL
from conoscope.capture.trace import Trace
from conoscope.cli import main
from conoscope.common.errors import MeasureError
from conoscope.common.vocabulary import GATES, MIXED
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.measures import request
from conoscope.measures.gates import Thresholds, names_of_gates, names_of_heads, scores_of
from conoscope.measures.tally import Tally
from conoscope.measuring.gates import LETTERS, gate_map, sort_gates, thresholds
from conoscope.measuring.pipeline import Options, measure
from conoscope.quantities.gate_scores import GATE_SCORES, PLACE, gate_scores
from conoscope.quantities.gates import LONGEST
from conoscope.results.from_sums import tables_of
from conoscope.results.result import Result
from conoscope.sums.samples import Sample
from quantities import sampled

LENGTHS = (12, 20, 50, 128)
NAMES = (*GATE_SCORES, *PLACE)


def random_rows(n: int, seed: int, sharp: float = 1.0) -> Tensor:
    noise = torch.rand(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return noise.pow(sharp) / noise.pow(sharp).sum(-1, keepdim=True)


def rows_of(x: Tensor) -> Tensor:
    """Each row made to add up to 1, an empty one spread evenly."""
    x = x.where(x.sum(-1, keepdim=True) > 0, 1.0)
    return x / x.sum(-1, keepdim=True)


def band(n: int, *steps: int) -> Tensor:
    return rows_of(sum(torch.diag(torch.ones(n - abs(step)).double(), step) for step in steps))


def block_diagonal(n: int, count: int) -> Tensor:
    return torch.block_diag(*(torch.ones(len(part), len(part)) for part in np.array_split(range(n), count))).double()


def made_up(kind: str, n: int, seed: int) -> Tensor:
    """A map of this kind over n tokens, the first of them [CLS], and a [SEP] after them; a tenth of it is noise."""
    noise = random_rows(n, seed)
    column = torch.zeros(n, n, dtype=torch.float64)
    column[:, torch.randperm(n - 1, generator=torch.Generator().manual_seed(seed))[: 1 + seed % 3] + 1] = 1
    pure = {
        "directional": rows_of(column),
        "open": torch.full((n, n), 1 / n).double(),
        "forward contextual": band(n, 1, 2, 3)[:, :],
        "backward contextual": band(n, -1, -2, -3),
        "forward contextual + backward contextual": band(n, -2, -1, 1, 2),
        "cluster": rows_of(block_diagonal(n, 3 if n < 20 else 5)),
        "mixed": random_rows(n, seed + 100, sharp=40),
        "closed": torch.full((n, n), 1 / n).double(),
    }[kind]
    inner = 0.9 * pure + 0.1 * noise
    to_special = 0.8 if kind == "closed" else 0.02
    whole = torch.zeros(n + 1, n + 1, dtype=torch.float64)
    whole[:n, :n], whole[:n, n], whole[n, n] = (1 - to_special) * inner, to_special, 1.0
    return whole


def masks(n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of n kept tokens, the first of them [CLS], and a [SEP]."""
    keep, special = torch.ones(n + 1, dtype=torch.bool), torch.zeros(n + 1, dtype=torch.bool)
    keep[n], special[0], special[n] = False, True, True
    return keep, special, torch.ones(n + 1, n + 1, dtype=torch.bool)


def score(whole: Tensor, keep: Tensor, special: Tensor, visible: Tensor) -> dict[str, Tensor]:
    found = gate_scores(whole[None, None], keep[None], special[None], visible[None])[0, 0].double()
    return dict(zip(NAMES, found, strict=True))


def alone(scores: dict[str, Tensor], shared: float = 1.0) -> dict[str, Tensor]:
    """One map, with what looking at others would tell."""
    return {**scores, "has_strong": (scores["strong"] > 0).double(), "shared": torch.tensor(shared).double()}


def named(scores: dict[str, Tensor], limits: Thresholds | None = None, shared: float = 1.0) -> str:
    found = names_of_gates(alone(scores, shared), limits or Thresholds())
    return " + ".join(gate for gate in GATES if found[gate]) or MIXED


KINDS = (
    "closed", "directional", "open", "forward contextual", "backward contextual",
    "forward contextual + backward contextual", "cluster", "mixed",
)  # fmt: skip


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_made_up_map_of_every_kind_is_named_so(kind: str, n: int) -> None:
    for seed in range(8):
        assert named(score(made_up(kind, n, seed), *masks(n))) == kind, seed


def causal(x: Tensor) -> Tensor:
    return rows_of(x.tril())


@pytest.mark.parametrize("n", [4, 5, 8, *LENGTHS, 300])
def test_a_causal_map_that_is_even_is_open_and_nothing_else(n: int) -> None:
    visible = torch.ones(n, n).tril().bool()
    keep, special = torch.ones(n).bool(), torch.zeros(n).bool()
    found = score(causal(torch.ones(n, n).double()), keep, special, visible)
    assert named(found) == "open"
    assert float(found["backward"]) == pytest.approx(0, abs=1e-12)
    assert float(found["cluster"]) == pytest.approx(0, abs=1e-12)
    assert float(found["spread"]) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("directional", lambda n: torch.eye(n)[0].expand(n, n)),
        ("backward contextual", lambda n: band(n, -1, -2, -3)),
        ("cluster", lambda n: block_diagonal(n, 3 if n < 20 else 5)),
        ("open", lambda n: torch.ones(n, n)),
    ],
)
def test_causal_maps_are_named_as_others_are(kind: str, make, n: int) -> None:  # type: ignore[no-untyped-def]
    visible = torch.ones(n, n).tril().bool()
    for seed in range(8):
        x = 0.9 * causal(make(n).double()) + 0.1 * causal(random_rows(n, seed))
        assert named(score(x, torch.ones(n).bool(), torch.zeros(n).bool(), visible)) == kind, seed


def instance_maps(n: int, background: str, count: int = 30, seed: int = 0) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    found = []
    for number in range(count):
        x = made_up(background, n, 7 * number + seed)
        row, key = torch.randint(1, n, (2,), generator=generator).tolist()
        x[row] *= 0.3
        x[row, key] += 0.7
        found.append(score(x, *masks(n)))
    return found


def sample_of(examples: list[dict[str, Tensor]], labels: list[int] | None = None) -> Sample:
    values = torch.stack([torch.stack([one[name] for name in NAMES]) for one in examples])
    label = torch.tensor(labels or [-1] * len(examples)).double()[:, None]
    at = torch.arange(len(examples))
    blank = torch.zeros(len(examples), 64, dtype=torch.uint8)
    return Sample.of(torch.zeros_like(at), at, torch.cat((values, label), dim=-1), blank, 32, 1)


@pytest.mark.parametrize("n", [20, 50, 128])
@pytest.mark.parametrize("background", ["open", "closed"])
def test_single_strong_cells_that_are_elsewhere_in_every_example_are_an_instance_gate(background: str, n: int) -> None:
    names, stability = names_of_heads(sample_of(instance_maps(n, background)), Thresholds())
    assert names == [f"{background} + instance"]
    assert float(stability[0]) > 0.8


def test_strong_cells_at_one_place_of_a_class_are_no_instance_gate() -> None:
    maps = instance_maps(50, "open", count=40)
    fixed = [{**one, "row": torch.tensor(3.0 + (n % 2)), "key": torch.tensor(9.0)} for n, one in enumerate(maps)]
    assert names_of_heads(sample_of(fixed), Thresholds())[0] == ["open"]
    assert names_of_heads(sample_of(fixed, [n % 2 for n in range(40)]), Thresholds())[0] == ["open"]
    moved = [{**one, "key": torch.tensor(float(n // 2))} for n, one in enumerate(fixed)]
    assert names_of_heads(sample_of(moved, [n % 2 for n in range(40)]), Thresholds())[0] == ["open + instance"]


def test_an_example_that_is_the_only_one_of_its_class_tells_no_instance() -> None:
    maps = sample_of(instance_maps(50, "open", count=4), [0, 1, 2, 3])
    assert scores_of(maps)["shared"].isnan().all()
    assert names_of_heads(maps, Thresholds())[0] == ["open"]


def causal_instances(n: int, count: int) -> list[tuple[Tensor, ...]]:
    """Even causal maps, but that row 2 gives nearly all to the first word, which is no strong cell as it sees but two, and that
    each has a strong cell of its own."""
    made = []
    for number in range(count):
        x = causal(torch.ones(n, n).double())
        x[1, :2] = torch.tensor([0.95, 0.05])
        row, key = n - 1 - number % 5, 2 + number
        x[row, : row + 1] *= 0.6
        x[row, key] += 0.4
        made.append((x, torch.ones(n).bool(), torch.zeros(n).bool(), torch.ones(n, n).tril().bool()))
    return made


def test_a_large_weight_of_a_row_that_sees_two_keys_hides_no_instance_gate() -> None:
    maps = causal_instances(40, 20)
    found = [score(*given) for given in maps]
    for one, given in zip(found, maps, strict=True):
        expected = strong_by_loops(*given)
        assert {name: float(one[name]) for name in expected} == pytest.approx(expected, abs=1e-12)
    assert scores_of(sample_of(found))["shared"].max() == 0
    assert names_of_heads(sample_of(found), Thresholds())[0] == ["open + instance"]


def strong_by_loops(x: Tensor, keep: Tensor, special: Tensor, visible: Tensor) -> dict[str, float]:
    """Of a map all of whose tokens are words: the share of rows with a strong cell, and where the strongest stands."""
    n, cells = len(x), {}
    for i in range(n):
        sees = int(visible[i].sum())
        cells |= {(i, j): float(x[i, j]) - 1 / sees for j in range(n) if x[i, j] >= 0.3 and x[i, j] * sees > 2}
    row, key = max(cells, key=lambda cell: cells[cell])
    return {"strong": len({i for i, _ in cells}) / n, "row": row, "key": key}


def test_of_equally_strong_cells_the_first_is_taken_whatever_rounding_does() -> None:
    n = 12
    keep, special, visible = masks(n)
    for seed in range(10):
        x = torch.full((n + 1, n + 1), 0.3 / (n - 1)).double()
        draw = torch.Generator().manual_seed(seed)
        for row, key in ((3, 7), (5, 2), (9, 9)):
            x[row, key] = 0.6 + 1e-8 * float(torch.rand((), generator=draw))
        found = score(x, keep, special, visible)
        assert (float(found["row"]), float(found["key"])) == (3, 7)


@pytest.mark.parametrize("n", range(5, 64))
def test_one_strong_row_of_any_number_is_one_row_in_single_precision_and_in_double(n: int) -> None:
    """1/n in float32 is above 1/n in float64 as often as not."""
    examples = instance_maps(n, "open", count=8, seed=n)
    for number, one in enumerate(examples):
        one |= {"strong": torch.tensor(1 / n).double(), "row": torch.tensor(number).double()}
    both = [sample_of(examples), sample_of([{name: x.float() for name, x in one.items()} for one in examples])]
    (names, stability), (single_names, single_stability) = (names_of_heads(maps, Thresholds()) for maps in both)
    assert names == single_names
    assert stability.tolist() == single_stability.tolist()
    assert "instance" in names[0]


def test_thresholds_that_are_met_exactly_are_met_in_single_precision_too() -> None:
    """Scores at each threshold itself, which in float32 lie above some and below others."""
    limits = Thresholds()
    at = {
        "special": 0.0, "peak": 0.5, "length": 30.0, "entropy": limits.open_entropy, "spread": limits.open_spread,
        "column": limits.directional_column, "columns": limits.directional_columns, "apart": limits.directional_apart,
        "forward": limits.contextual_mass, "backward": limits.contextual_mass / 2, "cluster": limits.cluster_mass,
        "cluster_beyond": limits.cluster_beyond, "strong": limits.instance_rows, "has_strong": 0.5,
        "shared": limits.instance_shared,
    }  # fmt: skip
    for changed in ({}, {"special": limits.closed_special}, {"peak": limits.closed_cell}, {"entropy": 0.0}, {"shared": 1 / 31}):
        for scale in (1 - 1e-7, 1, 1 + 1e-7):
            both = (
                {name: torch.tensor(scale * value, dtype=dtype).double() for name, value in (at | changed).items()}
                for dtype in (torch.float32, torch.float64)
            )
            named_so = [[gate for gate, is_one in names_of_gates(one, limits).items() if is_one] for one in both]
            exact = names_of_gates({name: torch.tensor(value).double() for name, value in (at | changed).items()}, limits)
            assert named_so[0] == named_so[1] == [gate for gate, is_one in exact.items() if is_one]


def test_names_and_stability_are_those_of_double_precision_on_a_real_model(minilm: LoadedModel, minilm64: LoadedModel) -> None:
    texts = Corpus.of(load_corpus("bistro:test").first(24), "some")
    single, double = (measure(model, texts, ["gates"]) for model in (minilm, minilm64))
    assert single["gates.names"]["gates"].tolist() == double["gates.names"]["gates"].tolist()
    np.testing.assert_allclose(single["gates.names"]["value"], double["gates.names"]["value"], atol=1e-12)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_map_of_rank_1_that_few_columns_carry_is_directional_and_the_even_one_is_open(columns: int) -> None:
    n = 30
    x = torch.zeros(n, n).double()
    x[:, 4 : 4 + columns] = 1 / columns
    everything = torch.ones(n).bool(), torch.zeros(n).bool(), torch.ones(n, n).bool()
    for one, name in ((x, "directional"), (torch.full((n, n), 1 / n).double(), "open")):
        found = score(one, *everything)
        assert float(found["first_share"]) == pytest.approx(1, abs=1e-12)
        assert named(found) == name


def test_a_map_that_looks_at_itself_is_neither_cluster_nor_contextual() -> None:
    n = 12
    found = score(torch.eye(n).double(), torch.ones(n).bool(), torch.zeros(n).bool(), torch.ones(n, n).bool())
    assert float(found["cluster"]) > 0.5
    assert named(found) == MIXED


def test_a_map_with_all_its_weight_on_special_tokens_is_closed_and_the_rest_is_not_made_up() -> None:
    n = 10
    x = torch.zeros(n + 1, n + 1).double()
    x[:, n] = 1
    found = score(x, *masks(n))
    assert named(found) == "closed"
    defined = {name for name, value in found.items() if not bool(value.isnan())}
    assert defined == {"special", "strong", "peak", "length", "row", "key"}
    assert (float(found["special"]), float(found["peak"])) == (1.0, 0.0)


def test_a_map_without_a_weight_that_counts_is_closed() -> None:
    n = 20
    x = torch.full((n + 1, n + 1), 0.009).double()
    x[:, n] = 1 - n * 0.009
    keep, _, visible = masks(n)
    nothing_special = torch.zeros(n + 1).bool()
    assert named(score(x, keep, nothing_special, visible)) == "closed"


def naive(x: np.ndarray, keep: np.ndarray, special: np.ndarray, visible: np.ndarray) -> dict[str, float]:
    """One map, token by token, every cut into blocks tried."""
    at = [i for i in range(len(x)) if keep[i]]
    n = len(at)
    seen = [[bool(visible[i, j]) for j in at] for i in at]
    raw = [[x[i, j] if visible[i, j] else 0.0 for j in at] for i in at]
    on_words = [[0.0 if special[j] else raw[p][q] for q, j in enumerate(at)] for p in range(n)]
    a = [[w / sum(row) for w in row] for row in raw]
    m = [sum(row) for row in seen]
    e = [[seen[i][j] / m[i] for j in range(n)] for i in range(n)]
    mean = [sum(a[i][j] for i in range(n)) / n for j in range(n)]
    even = [sum(e[i][j] for i in range(n)) / n for j in range(n)]
    found = {
        "special": sum(x[i, j] for i in at for j in range(len(x)) if special[j]) / n,
        "entropy": float(np.mean([-sum(w * math.log(w) for w in a[i] if w > 0) / math.log(m[i]) for i in range(n) if m[i] > 1])),
        "column": max(mean),
        "columns": sum(sorted(mean)[-3:]),
        "spread": 1 + n * max(c - d for c, d in zip(mean, even, strict=True)),
        "apart": sum(abs(a[i][j] - mean[j]) / 2 for i in range(n) for j in range(n)) / n,
        "length": n,
        "peak": max(map(max, on_words)),
        "strong": sum(max(row) >= 0.3 and max(row) > 2 / seen for row, seen in zip(on_words, m, strict=True)) / n,
        "k90": float(np.median([naive_k90(row) for row in a])),
    }
    for name, near, side in (("backward", "previous", -1), ("forward", "next", 1)):
        for key, reach in ((name, 5), (near, 1)):
            there = [
                [i + side * d for d in range(1, reach + 1) if 0 <= i + side * d < n and seen[i][i + side * d]] for i in range(n)
            ]
            rows = [i for i in range(n) if there[i]]
            mass, chance = (sum(y[i][j] for i in rows for j in there[i]) / len(rows) for y in (a, e)) if rows else (math.nan,) * 2
            found[key] = (mass - chance) / (1 - chance) if reach == 5 else mass
    squares = np.linalg.svd(np.array(a), compute_uv=False) ** 2
    found["first_share"] = float(squares[0] / squares.sum())
    found |= naive_blocks(a, e, seen)
    strong = [(i, j) for i in range(n) for j in range(n) if on_words[i][j] >= 0.3 and on_words[i][j] > 2 / m[i]]
    found["row"], found["key"] = max(strong, key=lambda c: on_words[c[0]][c[1]] - e[c[0]][c[1]], default=(0, 0))
    return found


def naive_k90(row: list[float]) -> int:
    total = 0.0
    for count, weight in enumerate(sorted(row, reverse=True), 1):
        total += weight
        if total >= 0.9 - 1e-5:
            return count
    raise AssertionError


def naive_blocks(a: list[list[float]], e: list[list[float]], seen: list[list[bool]]) -> dict[str, float]:
    n, cuts = len(a), []
    by_distance = {}
    for d in range(1 - n, n):
        cells = [a[i][i + d] for i in range(n) if 0 <= i + d < n and seen[i][i + d]]
        by_distance[d] = sum(cells) / len(cells) if cells else 0.0
    for k in range(2, min(10, n) + 1):
        for inner in itertools.combinations(range(1, n), k - 1):
            borders = (0, *inner, n)
            cells = [(i, j) for begin, end in itertools.pairwise(borders) for i in range(begin, end) for j in range(begin, end)]
            held = sum(a[i][j] for i, j in cells) / n
            cuts.append((held - sum(e[i][j] for i, j in cells) / n, k, held - sum(by_distance[j - i] for i, j in cells) / n))
    best = max(cuts)[0]
    blocks = min(k for value, k, _ in cuts if value >= best - 1e-2)
    _, _, beyond = max(cut for cut in cuts if cut[1] == blocks)
    return {"cluster": best, "blocks": blocks, "cluster_beyond": beyond}


def example(n: int, seed: int, mask: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights, the tokens to keep, the special ones, and what is visible: a [CLS], [SEP]s in the middle and at the end."""
    keep, special = torch.ones(n).bool(), torch.zeros(n).bool()
    special[[0, n // 2, n - 1]] = True
    keep[[n // 2, n - 1]] = False
    places = torch.arange(n)
    apart = places[:, None] - places
    visible = {"all": apart > -n, "causal": apart >= 0, "local": apart.abs() <= 3}[mask]
    x = random_rows(n, seed, sharp=1 + 3 * (seed % 4)) * visible
    return x / x.sum(-1, keepdim=True), keep, special, visible


@pytest.mark.parametrize("mask", ["all", "causal", "local"])
@pytest.mark.parametrize("n", [6, 9, 11])
def test_every_score_equals_its_definition(n: int, mask: str) -> None:
    for seed in range(6):
        given = example(n, seed, mask)
        found, expected = score(*given), naive(*(x.numpy() for x in given))
        assert {name: float(found[name]) for name in NAMES} == pytest.approx(expected, abs=1e-9, nan_ok=True), seed


@pytest.mark.parametrize("make", [lambda n: band(n, -1, -2, -3), lambda n: rows_of(block_diagonal(n, 5)), lambda n: torch.eye(n)])
def test_the_first_share_is_right_even_where_many_are_nearly_equal(make) -> None:  # type: ignore[no-untyped-def]
    for n in (12, 64, 200):
        x = 0.9 * make(n).double() + 0.1 * random_rows(n, n)
        squares = torch.linalg.svdvals(x).square()
        found = score(x, torch.ones(n).bool(), torch.zeros(n).bool(), torch.ones(n, n).bool())["first_share"]
        assert float(found) == pytest.approx(float(squares[0] / squares.sum()), abs=1e-3)


@pytest.mark.parametrize("mask", ["all", "causal", "local"])
def test_pads_anywhere_and_longer_neighbours_change_nothing(mask: str) -> None:
    examples = [example(n, seed, mask) for seed, n in enumerate((8, 15, 11, 30))]
    generator = torch.Generator().manual_seed(0)
    batch = [torch.zeros(4, 40, 40).double(), *(torch.zeros(4, 40).bool() for _ in range(2)), torch.zeros(4, 40, 40).bool()]
    for row, given in enumerate(examples):
        size = len(given[1])
        at = torch.randperm(40, generator=generator)[:size].sort().values
        for whole, part in zip(batch, given, strict=True):
            whole[row][at if part.ndim == 1 else (at[:, None], at)] = part
        pads = torch.ones(40).bool()
        pads[at] = False
        batch[0][row, pads] = math.nan
    together = gate_scores(batch[0][:, None], *batch[1:])[:, 0]
    for found, given in zip(together, examples, strict=True):
        torch.testing.assert_close(found, torch.stack(list(score(*given).values())), rtol=0, atol=1e-9, equal_nan=True)


def test_heads_do_not_touch_each_other_and_the_maps_stay_as_they_are() -> None:
    x, keep, special, visible = example(14, 0, "all")
    maps = torch.stack((x, torch.full_like(x, 1 / 14), made_up("cluster", 13, 0)))[None]
    before = maps.clone()
    found = gate_scores(maps, keep[None], special[None], visible[None])[0]
    torch.testing.assert_close(maps, before, rtol=0, atol=0)
    for head in range(3):
        torch.testing.assert_close(found[head], torch.stack(list(score(maps[0, head], keep, special, visible).values())))


def test_single_precision_gives_the_same_names() -> None:
    for kind, seed in itertools.product(KINDS, range(3)):
        x, *rest = made_up(kind, 50, seed), *masks(50)
        assert named(score(x.float(), *rest)) == kind


def read(traces: list[Trace]) -> dict[str, pd.DataFrame]:
    tally = Tally.for_needs(request("gates").needs())
    for trace in traces:
        tally.add(trace)
    return tables_of(request("gates"), tally)


def assert_same(one: dict[str, pd.DataFrame], other: dict[str, pd.DataFrame], tolerance: float) -> None:
    assert one.keys() == other.keys() == {"gates", "gates.names", "gates.maps"}
    for name, frame in one.items():
        pd.testing.assert_frame_equal(frame, other[name], rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", SHAPES)
def test_padding_changes_nothing(name: str) -> None:
    """1e-9 in float64; 1e-5 where the model's own softmax casts to float32."""
    model = tiny(name, torch.float64)
    tight, loose = (read(traces_of(model, padded((30, 11, 4), extra))) for extra in (0, 9))
    assert_same(tight, loose, 1e-4 if name in ("llama", "modernbert") else 1e-9)


def test_left_padding_changes_nothing_in_pure_attention(pure: LoadedModel) -> None:
    right, left = (read(traces_of(pure.module, padded(left=left))) for left in (False, True))
    assert_same(right, left, 1e-9)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_causal_maps_of_a_decoder_do_not_make_every_head_backward(name: str) -> None:
    frame = read(traces_of(tiny(name), padded((40, 33, 12, 9, 5))))["gates.names"]
    backward = frame["gates"].str.contains("backward")
    assert backward.mean() < 0.5
    assert not frame["gates"].str.contains("forward").any()


def test_sentences_with_few_words_or_too_many_tokens_are_left_out() -> None:
    lengths = (3, 4, 9)
    batch = padded(lengths)
    weights = torch.full((3, 2, 9, 9), 1 / 9)
    trace = Trace(1, batch, weights=weights, visible=batch.real.sum(-1, keepdim=True))
    assert len(sampled("gate_maps", trace, examples="32").ranks) == 2
    special = replace(batch, kind=torch.where(torch.arange(9) < 1, SPECIAL, batch.kind))
    assert len(sampled("gate_maps", replace(trace, batch=special), examples="32").ranks) == 1
    long = Batch.of_ids(torch.zeros(1, LONGEST + 1, dtype=torch.long), torch.ones(1, LONGEST + 1, dtype=torch.bool))
    shape = (1, 1, LONGEST + 1, LONGEST + 1)
    trace = Trace(1, long, weights=torch.ones(shape), visible=torch.ones(1, 1).long())
    assert sampled("gate_maps", trace, examples="32") is None
    assert sampled("gate_maps", Trace(1, batch), examples="32") is None


def test_cls_is_kept_and_special_and_sep_is_not_kept() -> None:
    kind = torch.tensor([[CLS, OTHER, OTHER, OTHER, OTHER, SEP, PAD]])
    batch = replace(
        Batch.of_ids(torch.zeros(1, 7, dtype=torch.long), kind != PAD, at=torch.zeros(1, dtype=torch.long)), kind=kind
    )
    weights = torch.full((1, 1, 7, 7), 1 / 6).where(batch.real[:, None, None], 0.0)
    values = sampled("gate_maps", Trace(1, batch, weights=weights, visible=torch.tensor([[6]])), examples="32").values
    found = dict(zip(NAMES, values[0, :-1].tolist(), strict=True))
    assert found["length"] == 5
    assert found["special"] == pytest.approx(2 / 6)


def test_an_example_that_could_not_enter_the_sample_is_not_looked_at() -> None:
    many = padded((9,) * 6)
    names = [many.ids[row] for row in many.example_ranks.argsort().tolist()]
    maps: list[list[int]] = []

    def attend(at: torch.Tensor, size: int) -> torch.Tensor:
        maps.append(at.tolist())
        return torch.full((len(at), 1, 9, 9), 1 / 9)

    def trace(*ids: str) -> Trace:
        batch = replace(padded((9,) * len(ids)), ids=ids)
        return Trace(1, batch, attend=attend, visible=batch.real.sum(-1, keepdim=True))

    sample = sampled("gate_maps", trace(names[2], names[0], names[1]), trace(*names[3:]), examples="2")
    assert sample.texts() == names[:2]
    assert maps == [[1, 2]]


@pytest.fixture(scope="module")
def whole(pure: LoadedModel, sentences: Corpus) -> Result:
    return measure(pure, sentences, ["gates"])


@pytest.mark.parametrize("size", [1, 7])
def test_batch_size_changes_nothing(pure: LoadedModel, sentences: Corpus, whole: Result, size: int) -> None:
    assert_same(measure(pure, sentences, ["gates"], Options(batch_size=size)).tables, whole.tables, 1e-9)


def test_three_merged_shards_equal_the_whole(pure: LoadedModel, sentences: Corpus, whole: Result) -> None:
    one, two, three = (measure(pure, sentences, ["gates"], Options(shard=(number, 3))) for number in (2, 3, 1))
    assert_same((one + two + three).tables, whole.tables, 1e-9)


def test_more_examples_than_the_sample_holds_are_the_same_however_they_are_cut(pure: LoadedModel, sentences: Corpus) -> None:
    parts = [measure(pure, sentences, ["gates"], Options(shard=(number, 3), batch_size=5)) for number in (1, 2, 3)]
    few, all = measure(pure, sentences, ["gates"]), measure(pure, sentences, ["gates:examples=64"])
    assert_same((parts[0] + parts[1] + parts[2]).tables, few.tables, 1e-9)
    assert set(few["gates.names"]["n"]) == {16}
    assert set(all["gates.names:examples=64"]["n"]) == {63}


def test_the_tables_have_a_row_for_each_score_and_one_for_each_head(whole: Result) -> None:
    scores, names = whole["gates"], whole["gates.names"]
    assert list(scores.columns) == ["measure", "site", "layer", "head", "score", "value", "sd", "n"]
    assert set(scores["score"]) == {*GATE_SCORES, "has_strong", "shared"}
    assert list(names.columns) == ["measure", "site", "layer", "head", "value", "sd", "n", "gates"]
    assert len(names) == 6
    assert {gate for cell in names["gates"] for gate in cell.split(" + ")} <= {*GATES, MIXED}
    assert names["value"].between(0, 1).all()


def test_other_thresholds_sort_anew_without_measuring(whole: Result) -> None:
    usual, named_so = sort_gates(whole), whole["gates.names"]
    assert usual["gates"].tolist() == named_so["gates"].tolist()
    assert usual["stability"].tolist() == named_so["value"].tolist()
    assert set(sort_gates(whole, Thresholds(closed_special=0.0))["gates"]) == {"closed"}
    strict = Thresholds(
        closed_special=2, closed_cell=0, directional_apart=-1, open_entropy=2, contextual_mass=3, cluster_mass=2,
        instance_rows=-1, instance_shared=-1,
    )  # fmt: skip
    assert set(sort_gates(whole, strict)["gates"]) == {MIXED}


def test_thresholds_are_given_by_name() -> None:
    assert thresholds([]) == Thresholds()
    assert thresholds(["open.entropy=0.7", "closed.special=.5"]) == Thresholds(open_entropy=0.7, closed_special=0.5)
    with pytest.raises(MeasureError, match=r"no threshold 'open.wide'; known thresholds: closed.cell, closed.special, cluster"):
        thresholds(["open.wide=3"])
    with pytest.raises(MeasureError, match=r"the threshold 'open.entropy=much' has no number from 0; give one"):
        thresholds(["open.entropy=much"])


def test_the_map_has_a_row_for_each_layer_and_counts_every_gate() -> None:
    rows = [(1, 1, "open"), (1, 2, "closed + instance"), (2, 1, MIXED), (2, 2, "open")]
    frame = pd.DataFrame(rows, columns=["layer", "head", "gates"]).assign(stability=0.5, n=7)
    lines = gate_map(frame).splitlines()
    assert [line.split() for line in lines[:4]] == [["head", "1", "2"], ["layer"], ["1", "O", "CI"], ["2", ".", "O"]]
    assert {" ".join(line.split()) for line in lines} >= {"O open 2", "C closed 1", "I instance 1", ". mixed 1", "K cluster 0"}
    assert lines[-1] == "4 heads; 7 examples; mean stability 0.50"
    assert len(set(LETTERS.values())) == len(GATES) + 1


def test_the_command_prints_the_map_and_refuses_what_it_cannot_read(
    whole: Result, pure: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole.save(tmp_path / "out")
    assert main(["gates", str(tmp_path / "out"), "--threshold", "closed.special=0"]) == 0
    assert "C  closed                 6" in capsys.readouterr().out
    measure(pure, [Example("the soup was cold")], ["sim"], out=tmp_path / "sim")
    for arguments, message in (
        (["out", "--threshold", "open=1"], "no threshold 'open'; known thresholds"),
        (["sim"], "no gates were measured here; give a folder written by conoscope measure -m gates"),
        (["nowhere"], "no folder "),
    ):
        assert main(["gates", str(tmp_path / arguments[0]), *arguments[1:]]) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_a_strong_cell_is_one_on_a_word_and_not_on_cls() -> None:
    x = made_up("open", 30, 0)
    x[:, 0] += 3
    keep, special, visible = masks(30)
    found = score(rows_of(x), keep, special, visible)
    assert float(found["strong"]) == 0
    x[5, 7] += 10
    found = score(rows_of(x), keep, special, visible)
    assert float(found["strong"]) == pytest.approx(1 / 30)
    assert (float(found["row"]), float(found["key"])) == (5, 7)
    assert float(found["special"]) > 0.7


@pytest.mark.parametrize(("step", "near", "name"), [(-1, "previous", "backward contextual"), (1, "next", "forward contextual")])
def test_heads_that_look_at_the_token_beside_by_clark_et_al_are_contextual(step: int, near: str, name: str) -> None:
    n = 40
    x = 0.6 * band(n, step) + 0.4 * random_rows(n, 0)
    found = score(x, torch.ones(n).bool(), torch.zeros(n).bool(), torch.ones(n, n).bool())
    assert float(found[near]) > 0.5
    assert named(found) == name
