"""Cone index, spectrum, norms and words against naive references, and their closed forms."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import traces_of
from conoscope.capture.trace import Trace
from conoscope.corpora import Corpus, Example
from conoscope.corpora.base import stable_hash
from conoscope.measures import request
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import measure
from conoscope.quantities.cones import CONES
from conoscope.results.from_sums import table
from conoscope.results.result import Result
from conoscope.sums.buffer import BatchBuffer
from conoscope.sums.numeric import entropy_rank
from quantities import finished

Vectors = dict[tuple[str, int], list[np.ndarray]]
"""By site and layer, one array (n, h, e) a sentence, of its real tokens."""
SITES = ("input", "query", "key", "value", "context", "output", "hidden")
SPECTRA = ("effective_rank", "participation_ratio", "top_directions")
NAMES = ("intra_sim", "cone_index", "variance", "vector_norms", *SPECTRA, *(f"{name}:tokens=all" for name in SPECTRA))


@pytest.fixture(scope="module")
def few(sentences: Corpus) -> Corpus:
    return Corpus.of(list(sentences)[:30], "few")


@pytest.fixture(scope="module")
def vectors(pure: LoadedModel, few: Corpus) -> Vectors:
    """Every vector of every site, one sentence at a time."""
    found: Vectors = {}
    for example in few:
        for trace in traces_of(pure.module, pure.batcher(few).batch([example])):
            for site in SITES:
                x = trace.vectors(site)
                if x is not None:
                    found.setdefault((site, trace.layer), []).append(x[0].transpose(0, 1).numpy())
    return found


@pytest.fixture(scope="module")
def measured(pure: LoadedModel, few: Corpus) -> Result:
    return measure(pure, few, [*NAMES, "cone_index:sum=vectors", "sim:mask=real", "intra_sim:mask=real"])


def rows(result: Result, name: str, **where: object) -> dict[tuple[str, int, int], dict[str, float]]:
    """The rows of a table by site, layer and head (0 for whole vectors)."""
    frame = result[name]
    for key, wanted in where.items():
        frame = frame[frame[key] == wanted]
    return {(row["site"], row["layer"], 0 if row["head"] is None else row["head"]): row for row in records(frame)}


def records(frame: object) -> list[dict[str, object]]:
    return frame.astype(object).where(frame.notna(), None).to_dict("records")  # type: ignore[attr-defined]


def of_row(vectors: Vectors, site: str, layer: int, head: int) -> list[np.ndarray]:
    """The vectors (n, d) that a row is about, a sentence each."""
    found = vectors[site, layer]
    return [x.reshape(len(x), -1) if head == 0 else x[:, head - 1] for x in found]


def units(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def entropy_rank_of(values: np.ndarray) -> float:
    p = values / values.sum()
    return math.exp(-sum(x * math.log(x) for x in p if x > 0))


NAIVE = {
    "cone_index": lambda x: np.linalg.norm(units(x).sum(0)),
    "cone_index:sum=vectors": lambda x: np.linalg.norm(x.sum(0)),
    "sim:mask=real": lambda x: np.mean([cosine(x[i], x[j]) for i, j in combinations(range(len(x)), 2)]),
    "intra_sim:mask=real": lambda x: np.mean([cosine(row, x.mean(0)) for row in x]),
    "variance": lambda x: np.trace(np.cov(x.T, ddof=1)),
}


@pytest.mark.parametrize("name", NAIVE)
def test_what_is_measured_in_each_sentence_equals_its_definition(measured: Result, vectors: Vectors, name: str) -> None:
    found = rows(measured, name)
    assert len(found) >= 13
    for key, row in found.items():
        each = [NAIVE[name](x) for x in of_row(vectors, *key)]
        assert row["value"] == pytest.approx(np.mean(each), abs=1e-9), key
        assert row["sd"] == pytest.approx(np.std(each, ddof=1), abs=1e-9), key
        assert row["n"] == 30


def test_the_cone_index_is_tied_to_sim_and_its_share_to_the_number_of_vectors(measured: Result, vectors: Vectors) -> None:
    for key, row in rows(measured, "cone_index").items():
        each = of_row(vectors, *key)
        assert row["share"] == pytest.approx(np.mean([NAIVE["cone_index"](x) / len(x) for x in each]), abs=1e-9)
        assert row["sim"] == pytest.approx(np.mean([NAIVE["sim:mask=real"](x) for x in each]), abs=1e-9)
        for x in each:
            n, sim = len(x), NAIVE["sim:mask=real"](x)
            assert NAIVE["cone_index"](x) == pytest.approx(math.sqrt(n + n * (n - 1) * sim), abs=1e-9)


@pytest.mark.parametrize("tokens", ["", ":tokens=all"])
def test_spectra_equal_a_singular_value_decomposition_of_the_vectors(
    measured: Result, vectors: Vectors, chosen: list[np.ndarray], tokens: str
) -> None:
    found = rows(measured, f"effective_rank{tokens}")
    assert len(found) == 4 + 3 * 3 * 2
    ratios = rows(measured, f"participation_ratio{tokens}")
    tops = rows(measured, f"top_directions{tokens}", first=2)
    for key, row in found.items():
        most = 1000 if tokens else 16 if key[2] == 0 else 8
        x = np.concatenate([x[at[:most]] for x, at in zip(of_row(vectors, *key), chosen, strict=True)])
        s = np.linalg.svd(x, compute_uv=False)
        assert row["value"] == pytest.approx(entropy_rank_of(s), abs=1e-6), key
        assert (row["n"], row["width"]) == x.shape
        assert row["rank"] == np.linalg.matrix_rank(x, tol=1e-7 * s[0])
        assert ratios[key]["value"] == pytest.approx((s**2).sum() ** 2 / (s**4).sum(), abs=1e-9)
        assert tops[key]["value"] == pytest.approx((s[:2] ** 2).sum() / (s**2).sum(), abs=1e-9)


@pytest.fixture(scope="module")
def chosen(pure: LoadedModel, few: Corpus) -> list[np.ndarray]:
    """The tokens of each sentence in the order of their hashes."""
    return [np.argsort(ranks_of(example, pure.batcher(few).batch([example]))) for example in few]


def test_norms_equal_those_of_all_vectors(measured: Result, vectors: Vectors) -> None:
    for key, row in rows(measured, "vector_norms").items():
        norms = np.linalg.norm(np.concatenate(of_row(vectors, *key)), axis=-1)
        assert row["value"] == pytest.approx(norms.mean(), abs=1e-9)
        assert row["sd"] == pytest.approx(norms.std(ddof=1), abs=1e-9)
        assert row["n"] == len(norms)


def test_the_histogram_counts_sixteen_tokens_of_a_sentence_and_quantiles_are_right_to_a_bin(
    measured: Result, vectors: Vectors, chosen: list[np.ndarray]
) -> None:
    frame = measured["vector_norms.histogram"]
    for key, row in rows(measured, "vector_norms").items():
        x = np.concatenate([x[at[:16]] for x, at in zip(of_row(vectors, *key), chosen, strict=True)])
        norms = np.linalg.norm(x, axis=-1)
        for q in (5, 25, 50, 75, 95):
            assert row[f"q{q:02}"] == pytest.approx(np.quantile(norms, q / 100, method="inverted_cdf"), rel=0.045)
        here = frame[(frame["site"] == key[0]) & (frame["layer"] == key[1]) & (frame["head"].fillna(0) == key[2])]
        for one in records(here):
            assert one["count"] == ((norms >= one["low"]) & (norms < one["high"])).sum()
        assert here["count"].sum() == len(norms)
        assert set(here["n"]) == {len(norms)}
        assert here["value"].sum() == pytest.approx(1)


def of_hidden(name: str, x: torch.Tensor) -> dict[str, object]:
    """The row of a measure for one sentence of these vectors."""
    batch = Batch.of_ids(torch.zeros(1, len(x), dtype=torch.long), torch.ones(1, len(x), dtype=torch.bool))
    asked = request(name)
    tally = Tally.for_needs(asked.needs())
    tally.add(Trace(1, batch, hidden=x.double()[None]))
    return records(table(asked, tally))[0]


def test_the_cone_index_of_copies_is_n_and_of_an_orthonormal_set_the_root_of_n() -> None:
    assert of_hidden("cone_index", torch.randn(1, 6).expand(9, 6))["value"] == pytest.approx(9, abs=1e-9)
    assert of_hidden("cone_index", torch.eye(9))["value"] == pytest.approx(3, abs=1e-9)


def test_the_cone_index_ignores_lengths_and_rotations_and_the_raw_sum_does_not_ignore_lengths() -> None:
    x = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turn = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))).Q
    longer = x * torch.arange(1, 8)[:, None]
    for changed in (longer, x @ turn):
        assert of_hidden("cone_index", changed)["value"] == pytest.approx(of_hidden("cone_index", x)["value"], abs=1e-9)
    raw = "cone_index:sum=vectors"
    assert of_hidden(raw, longer)["value"] != pytest.approx(of_hidden(raw, x)["value"], abs=1e-3)


def test_effective_ranks_of_closed_forms() -> None:
    assert float(entropy_rank(torch.tensor([3.0, 1, 1, 0], dtype=torch.float64))) == pytest.approx(2.586409, abs=1e-6)
    assert of_hidden("effective_rank", torch.diag(torch.tensor([3.0, 1, 1, 0])))["value"] == pytest.approx(2.586409, abs=1e-6)
    assert of_hidden("effective_rank", torch.eye(8))["value"] == pytest.approx(8, abs=1e-9)
    assert of_hidden("participation_ratio", torch.eye(8))["value"] == pytest.approx(8, abs=1e-9)
    one = torch.outer(torch.arange(1.0, 6), torch.ones(4))
    for name in ("effective_rank", "participation_ratio", "top_directions"):
        assert of_hidden(name, one)["value"] == pytest.approx(1, abs=1e-6)
    assert of_hidden("effective_rank", one)["rank"] == 1


def test_the_variance_of_two_opposite_vectors_is_twice_their_square() -> None:
    assert of_hidden("variance", torch.tensor([[1.0, 2.0], [-1.0, -2.0]]))["value"] == pytest.approx(10, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("heads", [1, 3])
def test_variances_of_sentences_of_every_spread_equal_two_passes(dtype: torch.dtype, heads: int) -> None:
    """Tokens that are the same count as 0, those that differ by little as what they differ by, and one token alone not at all."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(6, 5, 6, generator=draw, dtype=torch.float64)
    x[1] = 0.1  # four tokens that are the same
    x[2] = 7 + 1e-6 * x[2]
    x[3, :, 2] += 8000
    x[4, :, :2] = x[4, :1, :2]  # the same in one head alone
    x = x.to(dtype)
    real = torch.arange(5) < torch.tensor([5, 4, 5, 3, 5, 1])[:, None]
    asked = request("variance")
    tally = Tally.for_needs(asked.needs())
    by_head = x.unflatten(-1, (heads, -1)).transpose(1, 2)
    tally.add(Trace(1, Batch.of_ids(torch.zeros(6, 5).long(), real), hidden=x, key=by_head))
    frame = table(asked, tally)
    for head in range(heads):
        each = [
            float(((rows - rows.mean(0)) ** 2).sum() / (len(rows) - 1))
            for rows in (by_head[i, head, real[i]].double().numpy() for i in range(5))
        ]
        row = frame[(frame["site"] == "key") & (frame["head"] == head + 1)].iloc[0]
        assert row["value"] == pytest.approx(np.mean(each), rel=1e-5 if dtype == torch.float32 else 1e-12)
        assert row["sd"] == pytest.approx(np.std(each, ddof=1), rel=1e-5 if dtype == torch.float32 else 1e-12)
        assert (row["n"], row["undefined"]) == (5, 1)


def test_a_collapsed_model_has_a_variance_of_zero() -> None:
    for width in (1, 3):
        row = of_hidden("variance", torch.full((4, width), 0.1))
        assert (row["value"], row["n"], row["undefined"]) == (0, 1, 0)
    # good good good good, and a sentence that varies: the mean is over both.
    x = torch.stack((torch.full((4, 3), 0.1), torch.eye(4)[:, :3]))
    asked = request("variance")
    tally = Tally.for_needs(asked.needs())
    tally.add(Trace(1, Batch.of_ids(torch.zeros(2, 4).long(), torch.ones(2, 4).bool()), hidden=x))
    (value,) = table(asked, tally)["value"]
    assert value == pytest.approx(np.trace(np.cov(np.eye(4)[:, :3].T)) / 2, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.integers(1, 8), st.integers(0, 10_000), st.floats(0, 20))
def test_bounds_hold_for_any_vectors(count: int, width: int, seed: int, shift: float) -> None:
    x = torch.randn(count, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + shift
    batch = Batch.of_ids(torch.zeros(1, count, dtype=torch.long), torch.ones(1, count, dtype=torch.bool))
    trace = Trace(1, batch, hidden=x[None])
    (found,) = finished("cones", trace, site="hidden", width="whole", mask="real")
    each = dict(zip(CONES, found[0, 0].tolist(), strict=True))
    assert -1 / (count - 1) - 1e-9 <= each["sim"] <= 1 + 1e-9
    assert -1e-9 <= each["cone_index"] <= count + 1e-9
    assert each["cone_index"] ** 2 == pytest.approx(count + count * (count - 1) * each["sim"], abs=1e-7)
    assert -1e-9 <= each["cone_share"] <= 1 + 1e-9
    assert -1 - 1e-9 <= each["intra_sim"] <= 1 + 1e-9
    assert of_hidden("variance", x)["value"] > 0
    for name, most in (("effective_rank", min(count, width)), ("participation_ratio", min(count, width)), ("top_directions", 1)):
        assert (0 if most == 1 else 1) - 1e-9 <= of_hidden(name, x)["value"] <= most + 1e-9


def test_the_cone_index_of_random_directions_is_about_the_root_of_n() -> None:
    x = torch.randn(427, 768, generator=torch.Generator().manual_seed(0))
    assert of_hidden("cone_index", x)["value"] == pytest.approx(math.sqrt(427), rel=0.1)


def spread(number: int) -> int:
    """splitmix64's finalizer in plain integers, 63 bits of it."""
    whole = (1 << 64) - 1
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & whole
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & whole
    return (number ^ (number >> 31)) & ((1 << 63) - 1)


def ranks_of(example: Example, batch: Batch) -> list[int]:
    """The hash of each token by the example's name and its own place."""
    return [spread(spread(stable_hash(example.id)) + place + 1) for place in range(batch.real.shape[1])]


def test_words_across_contexts_equal_a_loop_over_pairs(minilm64: LoadedModel, sentences: Corpus) -> None:
    """Of MiniLM: the 64 vocabulary entries with the smallest hash, those with five occurrences or more."""
    result = measure(minilm64, sentences, ["self_sim", "max_explained_variance", "max_explained_variance:centred=yes"])
    tokenizer, places = minilm64.tokenizer, {}
    for example in sentences:
        batch = minilm64.batcher(sentences).batch([example])
        states = [trace.hidden[0].numpy() for trace in traces_of(minilm64.module, batch)]
        ranks = ranks_of(example, batch)
        for place, (token, kind) in enumerate(zip(batch.inputs["input_ids"][0].tolist(), batch.kind[0].tolist(), strict=True)):
            if kind == 4 and token != tokenizer.unk_token_id:
                places.setdefault(token, []).append((ranks[place], [state[place] for state in states]))
    frequent = {
        tokenizer.decode([token]): np.array([x for _, x in sorted(places[token], key=lambda found: found[0])[:100]])
        for token in sorted(places, key=spread)[:64]
        if len(places[token]) >= 5
    }
    assert len(frequent) > 10
    assert max(map(len, places.values())) > 100
    sims = {word: [NAIVE["sim:mask=real"](x[:, layer]) for layer in range(7)] for word, x in frequent.items()}
    for row in records(result["self_sim"]):
        each = [sims[word][row["layer"]] for word in frequent]
        assert row["value"] == pytest.approx(np.mean(each), abs=1e-9)
        assert row["sd"] == pytest.approx(np.std(each, ddof=1), abs=1e-9)
        assert row["n"] == len(frequent)
        assert row["adjusted"] == pytest.approx(row["value"] - row["baseline"], abs=1e-12)
    for row in records(result["self_sim.words"]):
        assert row["value"] == pytest.approx(sims[row["word"]][row["layer"]], abs=1e-9)
        assert row["n"] == len(frequent[row["word"]])
    for name, centre in (("max_explained_variance", False), ("max_explained_variance:centred=yes", True)):
        for row in records(result[name]):
            x = [v[:, row["layer"]] - (v[:, row["layer"]].mean(0) if centre else 0) for v in frequent.values()]
            energies = [np.linalg.svd(one, compute_uv=False) ** 2 for one in x]
            assert row["value"] == pytest.approx(np.mean([s[0] / s.sum() for s in energies]), abs=1e-9)


def test_the_baseline_is_the_mean_cosine_of_one_random_word_of_each_sentence(pure: LoadedModel, few: Corpus) -> None:
    result = measure(pure, few, ["sim", "self_sim"])
    picked: dict[int, list[np.ndarray]] = {}
    for example in few:
        batch = pure.batcher(few).batch([example])
        ranks = ranks_of(example, batch)
        allowed = [place for place in range(len(ranks)) if batch.content[0, place]]
        at = min(allowed, key=ranks.__getitem__)
        for trace in traces_of(pure.module, batch):
            picked.setdefault(trace.layer, []).append(trace.hidden[0, at].numpy())
    for row in records(result["sim"]):
        if row["site"] == "hidden":
            expected = NAIVE["sim:mask=real"](np.array(picked[row["layer"]]))
            assert row["baseline"] == pytest.approx(expected, abs=1e-9)
            assert row["adjusted"] == pytest.approx(row["value"] - expected, abs=1e-9)


def test_a_corpus_without_frequent_words_has_no_self_sim(pure: LoadedModel) -> None:
    result = measure(pure, [Example("the soup was cold"), Example("we loved it")])
    assert "self_sim" not in result.tables
    assert "sim" in result.tables


@pytest.mark.parametrize("texts", [["! ? !", ". . !"], ["zqxv wvxz", "qqqqzz vvv"]])
def test_texts_of_punctuation_or_of_unknown_words_have_no_words_and_break_nothing(pure: LoadedModel, texts: list[str]) -> None:
    result = measure(pure, [Example(text) for text in texts])
    assert "self_sim" not in result.tables
    assert result["sim"]["n"].max() == 2


def test_two_tallies_of_the_same_traces_find_the_same_samples(pure: LoadedModel, few: Corpus) -> None:
    batches = list(pure.batcher(few).batches(few, 15))
    traces = [traces_of(pure.module, batch) for batch in batches]
    tallies = [Tally.for_needs(request(name).needs()) for name in ("self_sim", "self_sim")]
    for tally in tallies:
        for trace in (trace for some in traces for trace in some):
            tally.add(trace)
    assert table(request("self_sim"), tallies[0]).equals(table(request("self_sim"), tallies[1]))


def test_the_variance_beside_one_huge_coordinate_is_told_in_single_precision() -> None:
    """As trained models have them."""
    x = torch.randn(40, 64, generator=torch.Generator().manual_seed(0))
    x[:, 3] += 8000
    asked = request("variance")
    tally = Tally.for_needs(asked.needs())
    tally.add(Trace(1, Batch.of_ids(torch.zeros(1, 40).long(), torch.ones(1, 40).bool()), hidden=x[None]))
    assert table(asked, tally)["value"][0] == pytest.approx(np.trace(np.cov(x.double().numpy().T)), rel=1e-9)


def test_room_for_what_waits_does_not_depend_on_an_empty_first_batch() -> None:
    waiting = BatchBuffer()
    waiting.make_room((torch.zeros(3, 0, 768),), 0)
    assert waiting.take((torch.zeros(3, 20, 768),))
    assert not waiting.take((torch.zeros(3, 20, 768),))
