"""Measures against naive references of their definitions, and what must not change them."""

import itertools
import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from architectures import SHAPES, padded, tiny
from conoscope.capture import wiring
from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Trace, traces_of
from conoscope.common.errors import CaptureError, MeasureError, ModelError
from conoscope.corpora import Corpus, Example
from conoscope.explaining import explain
from conoscope.explaining.erasing import Eraser
from conoscope.measures import CATALOGUE, request
from conoscope.measures.tally import Tally
from conoscope.measuring.pipeline import Options, measure
from conoscope.results.from_sums import table
from conoscope.results.result import Result
from conoscope.sums.numeric import normalized
from conoscope.training.comparison import compare
from conoscope.training.geometry_callback import geometry
from quantities import computed, finished


def mean_cosine(vectors: np.ndarray) -> float:
    """SIM as it is written: a double loop over the pairs of one sentence."""
    cosines = [
        float(vectors[i] @ vectors[j] / (np.linalg.norm(vectors[i]) * np.linalg.norm(vectors[j])))
        for i, j in itertools.combinations(range(len(vectors)), 2)
    ]
    return sum(cosines) / len(cosines)


def entropy(p: np.ndarray) -> float:
    return -sum(x * math.log(x) for x in p if x > 0) / math.log(max(len(p), 2))


class Naive:
    """MiniLM one sentence at a time, without padding, its parts found by their names in BERT."""

    def __init__(self, model: LoadedModel, corpus: Corpus) -> None:
        self.model = model
        self.sentences = [self._reduction(example) for example in corpus]

    def _reduction(self, example: Example) -> dict[str, np.ndarray]:
        module, found = self.model.module, {}
        inputs = self.model.tokenizer(
            *([example.text] if example.pair is None else [example.text, example.pair]), return_tensors="pt"
        )
        module.set_attn_implementation("eager")
        handles = [
            getattr(layer.attention.self, site).register_forward_hook(
                lambda _, __, out, key=(site, number): found.__setitem__(key, out[0].numpy().astype(np.float64))
            )
            for number, layer in enumerate(module.encoder.layer, 1)
            for site in ("query", "key", "value")
        ]
        with torch.no_grad():
            outputs = module(**inputs, output_hidden_states=True, output_attentions=True)
        for handle in handles:
            handle.remove()
        module.set_attn_implementation("sdpa")
        content = [token not in self.model.tokenizer.all_special_ids for token in inputs["input_ids"][0].tolist()]
        found |= {
            ("hidden", layer): state[0].numpy().astype(np.float64)[content] for layer, state in enumerate(outputs.hidden_states)
        }
        found |= {
            ("weights", layer): weights[0].numpy().astype(np.float64) for layer, weights in enumerate(outputs.attentions, 1)
        }
        return found

    def mean(self, value, site: str, layer: int) -> tuple[float, int]:  # type: ignore[no-untyped-def]
        values = [value(sentence[site, layer]) for sentence in self.sentences if len(sentence[site, layer]) > 1]
        return sum(values) / len(values), len(values)


@pytest.fixture(scope="module")
def naive(minilm: LoadedModel, sentences: Corpus) -> Naive:
    return Naive(minilm, sentences)


@pytest.fixture(scope="module")
def measured(minilm: LoadedModel, sentences: Corpus) -> Result:
    return measure(minilm, sentences)


def cell(result: Result, name: str, **where: object) -> tuple[float, int]:
    frame = result[name]
    for key, wanted in where.items():
        frame = frame[frame[key].isna()] if wanted is None else frame[frame[key] == wanted]
    assert len(frame) == 1, f"{where} names {len(frame)} rows"
    return float(frame["value"].iloc[0]), int(frame["n"].iloc[0])


@pytest.mark.parametrize("layer", range(7))
def test_sim_of_hidden_states_equals_a_double_loop_on_minilm(naive: Naive, measured: Result, layer: int) -> None:
    found, n = cell(measured, "sim", site="hidden", layer=layer)
    expected, count = naive.mean(mean_cosine, "hidden", layer)
    assert found == pytest.approx(expected, abs=1e-6)
    assert n == count


@pytest.mark.parametrize("site", ["query", "key", "value"])
@pytest.mark.parametrize("layer", [1, 3, 6])
def test_sim_of_whole_vectors_and_of_heads_equals_a_double_loop_on_minilm(
    naive: Naive, measured: Result, site: str, layer: int
) -> None:
    assert cell(measured, "sim", site=site, layer=layer, head=None)[0] == pytest.approx(
        naive.mean(mean_cosine, site, layer)[0], abs=1e-6
    )
    for head in (1, 12):
        expected = naive.mean(lambda x, h=head: mean_cosine(x[:, 32 * (h - 1) : 32 * h]), site, layer)[0]
        assert cell(measured, "sim", site=site, layer=layer, head=head)[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("layer", [1, 3, 6])
def test_attention_entropy_equals_a_double_loop_on_minilm(naive: Naive, measured: Result, layer: int) -> None:
    for head in (1, 12):
        rows = {
            "all": lambda w, h=head: sum(entropy(row) for row in w[h - 1]) / w.shape[-1],
            "cls": lambda w, h=head: entropy(w[h - 1, 0]),
            "cls_to_others": lambda w, h=head: entropy(w[h - 1, 0, 1:] / w[h - 1, 0, 1:].sum()),
        }
        for row, value in rows.items():
            expected = naive.mean(value, "weights", layer)[0]
            assert cell(measured, "attention_entropy", row=row, layer=layer, head=head)[0] == pytest.approx(expected, abs=1e-6)


def test_entropy_after_a_second_softmax_equals_a_naive_softmax_of_each_row(
    minilm: LoadedModel, sentences: Corpus, naive: Naive
) -> None:
    name = "attention_entropy:softmax=twice"
    found = measure(minilm, sentences, [name])
    for layer, head in ((1, 1), (3, 12), (6, 5)):
        expected = naive.mean(lambda w, h=head: entropy(np.exp(w[h - 1, 0]) / np.exp(w[h - 1, 0]).sum()), "weights", layer)
        value, n = cell(found, name, row="cls", layer=layer, head=head)
        assert (value, n) == (pytest.approx(expected[0], abs=1e-6), expected[1])


def assert_same_tables(one: Result, other: Result, tolerance: float) -> None:
    for name, frame in one.tables.items():
        left, right = frame, other.tables[name]
        assert list(left.columns) == list(right.columns)
        for column in left:
            if left[column].dtype.kind == "f":
                numbers = (frame[column].to_numpy(float) for frame in (left, right))
                np.testing.assert_allclose(*numbers, rtol=tolerance, atol=tolerance, err_msg=f"{name} {column}")
            else:
                assert left[column].equals(right[column]), column


@pytest.fixture(scope="module")
def whole(minilm64: LoadedModel, sentences: Corpus) -> Result:
    return measure(minilm64, sentences)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_batch_size_changes_nothing(minilm64: LoadedModel, sentences: Corpus, whole: Result, size: int) -> None:
    assert_same_tables(measure(minilm64, sentences, options=Options(batch_size=size)), whole, 1e-9)


def test_order_changes_nothing(minilm64: LoadedModel, sentences: Corpus, whole: Result) -> None:
    shuffled = random.Random(0).sample(list(sentences), 64)
    assert_same_tables(measure(minilm64, Corpus.of(shuffled, "sentences")), whole, 1e-9)


def test_four_merged_shards_equal_the_whole(minilm64: LoadedModel, sentences: Corpus, whole: Result) -> None:
    parts = [measure(minilm64, sentences, options=Options(shard=(number, 4))) for number in (3, 1, 4, 2)]
    merged = parts[0] + parts[1] + parts[2] + parts[3]
    assert_same_tables(merged, whole, 1e-9)
    assert merged.provenance["seen"] == whole.provenance["seen"]
    assert not merged.missing


def without_bins(results: list[Result]) -> None:
    """Take out what jumps when a length passes from one bin of the histogram to the next."""
    for result in results:
        del result.tables["vector_norms.histogram"]
        frame = result.tables["vector_norms"]
        frame.loc[:, [column for column in frame if column.startswith("q")]] = 0.0


PROVENANCE = {
    "measures": list(CATALOGUE),
    "every": True,
    "shards": ["1/1"],
    "model": {"labels": ["a", "b", "c"]},
    "corpus": {"labels": []},
    "options": {},
}


def tables_of(batch: Batch, traces: list[Trace]) -> Result:
    tally = Tally.for_needs(need for name in CATALOGUE for need in request(name).needs())
    for trace in traces:
        tally.add(trace)
    return Result(tally, PROVENANCE)


@pytest.mark.parametrize("name", SHAPES)
def test_padding_changes_nothing(name: str) -> None:
    """1e-9 in float64; 1e-5 where the model's own softmax casts to float32."""
    model = tiny(name, torch.float64)
    tight, loose = padded(), padded(extra=9)
    tolerance = 1e-5 if name in ("llama", "modernbert") else 1e-9
    results = [tables_of(batch, traces_of(model, batch)) for batch in (tight, loose)]
    if tolerance > 1e-9:
        without_bins(results)
    assert_same_tables(*results, tolerance)


@pytest.mark.parametrize("name", ["modernbert", "llama"])
def test_left_padding_changes_nothing_where_positions_are_relative(name: str) -> None:
    """Rotary positions turn all keys of a shifted sentence alike: cosines within it stay, those across sentences do not."""
    model = tiny(name, torch.float64)
    right, left = (tables_of(batch, traces_of(model, batch)) for batch in (padded(), padded(left=True)))
    without_bins([right, left])
    for result in (right, left):
        for name, frame in result.tables.items():
            across = ["pooled", "baseline", "adjusted"] if name in ("sim", "intra_sim") else ["value", "rank"]
            if name in ("sim", "intra_sim", "effective_rank", "participation_ratio", "top_directions"):
                turned = frame["site"].isin(["query", "key"])
                frame.loc[turned, [column for column in across if column in frame]] = 0
    assert_same_tables(right, left, 1e-5)


def test_left_padding_changes_nothing_in_pure_attention(pure: LoadedModel) -> None:
    right, left = padded(), padded(left=True)
    assert_same_tables(tables_of(right, traces_of(pure.module, right)), tables_of(left, traces_of(pure.module, left)), 1e-9)


def a_trace(vectors: torch.Tensor, real: torch.Tensor | None = None) -> Trace:
    rows, tokens = vectors.shape[:2]
    real = torch.ones(rows, tokens, dtype=torch.bool) if real is None else real
    return Trace(1, Batch.of_ids(torch.zeros(rows, tokens, dtype=torch.long), real), hidden=vectors)


def test_the_order_of_the_tokens_leaves_sim_as_it_is() -> None:
    x = torch.randn(1, 9, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned = x[:, torch.randperm(9, generator=torch.Generator().manual_seed(1))]
    options = {"site": "hidden", "width": "whole", "mask": "real"}
    torch.testing.assert_close(
        computed("cones", a_trace(x), **options), computed("cones", a_trace(turned), **options), rtol=0, atol=1e-12
    )


def test_a_sentence_of_one_token_has_no_sim_and_spoils_no_mean(pure: LoadedModel) -> None:
    texts = [Example("soup"), Example("the soup was cold"), Example("we loved it")]
    frame = measure(pure, texts, ["sim"])["sim"]
    hidden = frame[frame["site"] == "hidden"]
    assert set(hidden["n"]) == {2}
    assert set(hidden["undefined"]) == {1}
    assert hidden["value"].notna().all()


def test_zero_vectors_are_counted_apart() -> None:
    x = torch.randn(1, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[0, 2] = 0
    tally = Tally.for_needs(request("sim:mask=real").needs())
    tally.add(a_trace(x))
    row = table(request("sim:mask=real"), tally).iloc[0]
    assert row["zeros"] == 1
    assert row["value"] == pytest.approx(mean_cosine(x[0, [0, 1, 3, 4]].numpy()), abs=1e-12)


@pytest.mark.parametrize(("row", "expected"), [("all", 1.0), ("cls", 1.0), ("cls_to_others", 1.0)])
def test_entropy_of_uniform_attention_is_one(row: str, expected: float) -> None:
    (found,) = computed("attention_entropy", weights_trace(torch.full((1, 1, 6, 6), 1 / 6, dtype=torch.float64)), row=row)
    assert float(found) == pytest.approx(expected, abs=1e-12)


def weights_trace(weights: torch.Tensor) -> Trace:
    tokens = weights.shape[-1]
    real = torch.ones(len(weights), tokens, dtype=torch.bool)
    batch = Batch.of_ids(
        torch.zeros(len(weights), tokens, dtype=torch.long), real, at=torch.zeros(len(weights), dtype=torch.long)
    )
    return Trace(1, batch, weights=weights, visible=real.sum(-1, keepdim=True))


def test_entropy_of_one_hot_attention_is_zero() -> None:
    assert float(computed("attention_entropy", weights_trace(torch.eye(6).double()[None, None]), row="all")[0]) == 0.0


def test_a_second_softmax_hides_how_sharp_attention_is_and_padding_and_a_missing_cls_have_no_part_in_it() -> None:
    (sharp,) = computed("softmaxed_entropy", weights_trace(torch.eye(20).double()[None, None]))
    assert float(sharp) == pytest.approx(entropy(np.exp([1.0] + [0.0] * 19) / (math.e + 19)), abs=1e-12)
    assert float(sharp) == pytest.approx(0.986, abs=0.0005)
    ids, real = torch.zeros(2, 4, dtype=torch.long), torch.tensor([[True, True, False, False]] * 2)
    batch = Batch.of_ids(ids, real, at=torch.tensor([0, -1]))
    weights = torch.tensor([0.7, 0.3, 0.0, 0.0], dtype=torch.float64).expand(2, 1, 4, 4)
    (found,) = computed("softmaxed_entropy", Trace(1, batch, weights=weights, visible=real.sum(-1, keepdim=True)))
    assert float(found[0]) == pytest.approx(entropy(np.exp([0.7, 0.3]) / np.exp([0.7, 0.3]).sum()), abs=1e-12)
    assert bool(found[1].isnan())


def test_entropy_of_a_single_token_is_zero() -> None:
    assert float(computed("attention_entropy", weights_trace(torch.ones(1, 1, 1, 1).double()), row="all")[0]) == 0.0


def test_a_cls_that_sees_only_itself_has_no_entropy_towards_others() -> None:
    assert bool(computed("attention_entropy", weights_trace(torch.eye(6).double()[None, None]), row="cls_to_others")[0].isnan())


def test_entropy_is_divided_by_the_log_of_what_a_row_may_see() -> None:
    assert float(normalized(torch.tensor(math.log(2), dtype=torch.float64), torch.tensor(2))) == pytest.approx(1.0, abs=1e-12)


def within(name: str) -> tuple[float, float]:
    """The bounds of a table's values."""
    tables = CATALOGUE[name.partition(".")[0]].tables
    return next(table.within for table in tables if table.name == name)


@pytest.mark.parametrize("name", SHAPES)
def test_every_value_lies_within_its_bounds(name: str) -> None:
    batch = padded()
    for measure_name, frame in tables_of(batch, traces_of(tiny(name), batch)).tables.items():
        low, high = within(measure_name)
        assert frame["value"].dropna().between(low - 1e-6, high + 1e-6).all(), measure_name


def test_masks_are_as_published_and_can_be_chosen(pure: LoadedModel) -> None:
    """As published: [CLS] counts among keys, and not among hidden states."""
    texts = [Example("the soup was cold"), Example("we loved the bread")]
    published, real, content = (measure(pure, texts, [name])[name] for name in ("sim", "sim:mask=real", "sim:mask=content"))
    for site, twin in (("hidden", content), ("key", real), ("value", real), ("query", real)):
        left, right = (frame[frame["site"] == site]["value"].to_numpy(float) for frame in (published, twin))
        np.testing.assert_array_equal(left, right)
    hidden = real[real["site"] == "hidden"]["value"].to_numpy(float)
    assert not np.allclose(hidden, published[published["site"] == "hidden"]["value"].to_numpy(float))


def test_an_unknown_measure_names_the_known_ones() -> None:
    with pytest.raises(MeasureError, match=r"no measure 'sin' \(did you mean 'sim'\?\); known measures: attention_entropy, cap"):
        request("sin")


def test_an_unknown_option_names_the_known_ones() -> None:
    with pytest.raises(MeasureError, match=r"sim has no option 'mask=none'; known: mask=published\|real\|content"):
        request("sim:mask=none")


def test_nothing_to_measure_raises_rather_than_makes_a_number_up() -> None:
    tally = Tally.for_needs(request("sim").needs())
    with pytest.raises(MeasureError, match="nothing to measure"):
        table(request("sim"), tally)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_of_half_precision_are_taken_in_single(dtype: torch.dtype) -> None:
    """5000 vectors, all alike: a sum in half precision would stop growing."""
    x = torch.ones(1, 5000, 4, dtype=dtype)
    (found,) = finished("cones", a_trace(x), site="hidden", width="whole", mask="real")
    assert float(found[..., 0]) == pytest.approx(1.0, abs=1e-5)


def test_entropy_of_half_precision_is_taken_in_single() -> None:
    (found,) = computed(
        "attention_entropy", weights_trace(torch.full((1, 1, 4096, 4096), 1 / 4096, dtype=torch.bfloat16)), row="cls"
    )
    assert float(found) == pytest.approx(1.0, abs=1e-5)


def test_a_model_that_overflows_is_refused_whichever_sentence_does_it(pure: LoadedModel) -> None:
    texts = [Example("the soup was cold"), Example("we loved the bread"), Example("the bread was good")]
    word = pure.tokenizer.convert_tokens_to_ids("bread")
    kept = pure.module.embedding.weight[word].clone()
    try:
        with torch.no_grad():
            pure.module.embedding.weight[word] = 1e200
        for order in (texts, texts[::-1]):
            with pytest.raises(ModelError, match=r"answers examples:\d with NaN or infinity in torch.float64; give"):
                measure(pure, order, options=Options(batch_size=1))
    finally:
        with torch.no_grad():
            pure.module.embedding.weight[word] = kept


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_whoever_asks_a_model_refuses_an_answer_that_is_no_number(pure: LoadedModel, bad: float) -> None:
    """Put into the answer itself: which numbers a sum that overflows leaves depends on the processor."""
    texts = [Example("the soup was cold", "negative"), Example("we loved the bread", "positive")]
    labelled = Corpus.of(texts)
    reading = pure.reading

    def spoil(module: object, given: object, outputs: Any) -> Any:
        outputs["logits"] = torch.full_like(outputs["logits"], bad)
        return outputs

    handle = pure.module.register_forward_hook(spoil)
    try:
        for ask in (
            lambda: measure(pure, texts),
            lambda: compare([pure], labelled),
            lambda: list(explain(pure, texts, ["gradient"])),
            lambda: list(explain(pure, texts, ["attention"])),
            lambda: Eraser(pure, pure.batcher(labelled), 2, None).probabilities(texts),
            lambda: geometry(pure.module, pure.tokenizer, labelled),
        ):
            with pytest.raises(ModelError, match=r"answers .* with NaN or infinity in torch.float64"):
                ask()
    finally:
        handle.remove()
    assert pure.reading is reading


def test_a_layer_that_cannot_be_followed_is_refused(pure: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    found = wiring.find_wiring

    def without_the_second(*given: object) -> wiring.Wiring:
        whole = found(*given)
        return replace(whole, outputs=(*whole.outputs[:2], None, *whole.outputs[3:]))

    monkeypatch.setattr("conoscope.capture.recorder.find_wiring", without_the_second)
    with pytest.raises(CaptureError, match="the site hidden of layer 2 cannot be followed"):
        measure(pure, [Example("the soup was cold")], ["sim"])
    assert len(measure(pure, [Example("the soup was cold")], ["attention_entropy"])["attention_entropy"])


def test_too_much_at_once_is_one_clear_error(pure: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*given: object, **named: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 720000000000 bytes")

    monkeypatch.setattr("conoscope.measuring.running.Capture.run", no_room)
    with pytest.raises(ModelError, match="1 x 5 tokens at once do not fit into memory; lower --batch-size or --max-length"):
        measure(pure, [Example("the soup was cold")], ["sim"])
