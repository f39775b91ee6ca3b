"""Ablation: which heads the answer rests on, held to plain passes by hand, to a model in which one head decides, and to scipy."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from torch import Tensor, nn
from transformers import AutoModel

import conoscope as cs
from architectures import tiny
from commands import refusal
from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.causes import ablation, saved
from conoscope.causes.ablation import Ablating, Run
from conoscope.causes.editor import Editor
from conoscope.causes.edits import Edit, scaled, zeroed
from conoscope.causes.inference import holm, paired, rank_correlation
from conoscope.causes.outcomes import Outcomes
from conoscope.causes.parts import MeanCounter, parts_of
from conoscope.causes.tables import gates_table
from conoscope.cli import main
from conoscope.common.errors import CaptureError, CorpusError, ModelError, OutputError
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.models.tokenizer import build_tokenizer
from handmade import HEAD, LAYER, WORDS, averaging, decided, texts

WHAT = ["logit_predicted", "probability_predicted", "changed", "accuracy", "logit_true", "probability_true"]


@pytest.fixture(scope="module")
def handmade() -> LoadedModel:
    return decided()


@pytest.fixture(scope="module")
def labelled(handmade: LoadedModel) -> Corpus:
    """Texts whose labels are the model's own answers, but for every fifth."""
    plain = [Example(text, id=str(number)) for number, text in enumerate(texts())]
    batch = handmade.batcher(Corpus.of(plain)).batch(plain)
    answers = handmade.answer(batch).argmax(-1).tolist()
    assert len(set(answers)) > 1
    names = handmade.labels
    return Corpus.of(
        [
            Example(e.text, names[(answer + (number % 5 == 0)) % 3], id=e.id)
            for number, (e, answer) in enumerate(zip(plain, answers, strict=True))
        ]
    )


@pytest.fixture(scope="module")
def effects(handmade: LoadedModel, labelled: Corpus) -> Any:
    return cs.ablate(handmade, labelled, batch_size=7, resamples=200)


def test_the_one_head_that_decides_is_named_and_a_head_that_does_nothing_has_no_effect(effects: Any) -> None:
    heads = effects["ablation.heads"]
    assert len(heads) == 2 * 12
    for how in ("zero", "mean"):
        of = heads[heads["how"] == how].set_index(["layer", "head"])
        assert of["value"].abs().idxmax() == (LAYER, HEAD)
        mine = effects["ablation"].query("layer == @LAYER and head == @HEAD and how == @how").set_index("what")
        assert mine["holm"]["changed"] < 0.01
        others = of.drop(index=(LAYER, HEAD))
        assert (others[["value", "changed", "accuracy", "probability_predicted", "logit_true", "estimate"]] == 0).all(axis=None)
        assert (others["holm"] == 1).all()
        assert of["accuracy"][LAYER, HEAD] < -0.1
    assert str(effects).startswith("accuracy 0.800 of 40 labelled texts\n\nwithout it (zero)")
    assert "attention of layer 2" in str(effects).splitlines()[3] + str(effects).splitlines()[4]
    assert "effect and first-order estimate (mean): 1.000" in str(effects)
    assert "head 2.3" in str(effects).splitlines()[3] + str(effects).splitlines()[4]


def test_without_all_other_heads_nothing_changes(handmade: LoadedModel, labelled: Corpus) -> None:
    batch = handmade.batcher(labelled).batch(list(labelled)[:9])
    with Editor(handmade.module) as editor:
        others = [
            Edit("context", layer, zeroed(), head=head)
            for layer in (1, 2, 3)
            for head in (1, 2, 3, 4)
            if (layer, head) != (LAYER, HEAD)
        ]
        assert torch.equal(editor.run(batch, others), handmade.answer(batch))
        only = editor.run(batch, [Edit("context", LAYER, zeroed(), head=HEAD)])
        # [CLS] is then the same in every text.
        torch.testing.assert_close(only, only[:1].expand_as(only))


def by_hand(loaded: LoadedModel, examples: list[Example], layer: int, head: int, new: Tensor | None) -> Tensor:
    """The answers to texts one by one without a head, by a hook on a module that is known by name; `new`: (2, width), what [CLS]
    and other tokens get."""

    def hook(module: nn.Module, given: tuple[Tensor]) -> tuple[Tensor]:
        x, part = given[0].clone(), slice(8 * (head - 1), 8 * head)
        x[:, :, part] = 0 if new is None else new[1, part]
        if new is not None:
            x[:, 0, part] = new[0, part]
        return (x,)

    handle = loaded.module.bert.encoder.layer[layer - 1].attention.output.dense.register_forward_pre_hook(hook)
    with torch.no_grad():
        found = [loaded.module(**loaded.tokenizer(e.text, return_tensors="pt")).logits for e in examples]
    handle.remove()
    return torch.cat(found)


def contexts(loaded: LoadedModel, examples: list[Example], layer: int) -> Tensor:
    """The mean context of [CLS] and of the other tokens, from texts one by one."""
    kept: list[Tensor] = []
    dense = loaded.module.bert.encoder.layer[layer - 1].attention.output.dense
    handle = dense.register_forward_pre_hook(lambda module, given: kept.append(given[0][0]))
    with torch.no_grad():
        for e in examples:
            loaded.module(**loaded.tokenizer(e.text, return_tensors="pt"))
    handle.remove()
    return torch.stack([torch.stack([x[0] for x in kept]).mean(0), torch.cat([x[1:] for x in kept]).mean(0)])


@pytest.fixture(scope="module")
def small() -> LoadedModel:
    """A random BERT of three layers of four heads, in float64."""
    module = tiny("bert", torch.float64)
    module.config.id2label = {0: "a", 1: "b", 2: "c"}
    return load_model(module, build_tokenizer([" ".join(WORDS)]))


def test_every_number_is_that_of_plain_passes_by_hand(small: LoadedModel) -> None:
    examples = [Example(text, "abc"[number % 3] if number % 4 else None, id=str(number)) for number, text in enumerate(texts(12))]
    table = cs.ablate(small, Corpus.of(examples), batch_size=5, resamples=10)["ablation"]
    before = torch.cat([small.module(**small.tokenizer(e.text, return_tensors="pt")).logits for e in examples]).detach()
    predicted = before.argmax(-1)
    true = torch.tensor([-1 if e.label is None else "abc".index(e.label) for e in examples])
    has = true >= 0
    for how in ("zero", "mean"):
        for layer, head in ((1, 1), (2, 4), (3, 2)):
            new = None if how == "zero" else contexts(small, examples, layer)
            after = by_hand(small, examples, layer, head, new)
            rows = table[(table["layer"] == layer) & (table["head"] == head) & (table["how"] == how)].set_index("what")
            assert list(rows.index) == WHAT

            def of(logits: Tensor) -> dict[str, Tensor]:
                shares = logits.softmax(-1)
                return {
                    "logit_predicted": logits[range(12), predicted],
                    "probability_predicted": shares[range(12), predicted],
                    "changed": (logits.argmax(-1) != predicted).double(),
                    "accuracy": (logits.argmax(-1) == true).double()[has],
                    "logit_true": logits[has, true[has]],
                    "probability_true": shares[has, true[has]],
                }

            for what, x in of(after).items():
                expected = x - of(before)[what]
                assert rows["value"][what] == pytest.approx(float(expected.mean()), abs=1e-6), what
                assert rows["sd"][what] == pytest.approx(float(expected.std()), abs=1e-6), what
                assert rows["n"][what] == len(expected)
                if what in ("changed", "accuracy"):
                    above, moved = int((expected > 0).sum()), int((expected != 0).sum())
                    assert rows["p"][what] == pytest.approx(scipy.stats.binomtest(above, moved).pvalue if moved else 1)
                elif float(expected.std()):
                    p = scipy.stats.ttest_1samp(expected, 0).pvalue
                    assert rows["p"][what] == pytest.approx(p, rel=1e-4), what


def test_the_mean_leaves_out_padding_and_keeps_the_classifying_token_apart(small: LoadedModel) -> None:
    examples = [Example(text) for text in texts(9)]
    batch = small.batcher(Corpus.of(examples)).batch(examples)
    with Editor(small.module) as editor:
        counter = MeanCounter()
        for some in (batch, batch):  # twice the same: the mean stays
            counter.add(editor.keep(some, ("context",)).vectors, some)
    means = counter.means()
    for layer in (1, 2, 3):
        expected = contexts(small, examples, layer)
        torch.testing.assert_close(means.classifying["context", layer], expected[0])
        torch.testing.assert_close(means.others["context", layer], expected[1])


def test_a_model_that_reads_all_tokens_has_one_mean_for_all() -> None:
    model, examples = averaging(), [Example(text) for text in texts(9)]
    batch = model.batcher(Corpus.of(examples)).batch(examples)
    with Editor(model.module) as editor:
        vectors = editor.keep(batch, ("context",)).vectors
    counter = MeanCounter()
    counter.add(vectors, batch)
    for place, x in vectors.items():
        expected = x[batch.real].mean(0).expand_as(x)
        torch.testing.assert_close(counter.means().of(place, batch), expected)


def test_estimates_are_slopes_along_the_way_to_the_reference(small: LoadedModel) -> None:
    examples = [Example(text) for text in texts(6)]
    corpus = Corpus.of(examples)
    batcher, step = small.batcher(corpus), 1e-5
    batch = batcher.batch(examples)
    with Editor(small.module) as editor:
        run = Run(small, editor, batcher, corpus, Ablating())
        outcomes = run.of_batch(batch, run.means())
        target = editor.run(batch).argmax(-1)
        for number, part in enumerate(run.parts):
            less, more = (
                editor.run(batch, [Edit(part.site, part.layer, scaled(1 + by), part.head)])[range(6), target]
                for by in (-step, step)
            )
            np.testing.assert_allclose(outcomes.estimates[:, 0, number], (less - more) / (2 * step), rtol=1e-4, atol=1e-5)
    whole = [number for number, part in enumerate(run.parts) if part.head is None and part.site == "output"]
    assert len(whole) == 3


@pytest.mark.parametrize("device", ["cuda"])
def test_parts_side_by_side_have_the_effects_that_they_have_alone(
    device: str, small: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = Corpus.of([Example(text, "abc"[number % 3]) for number, text in enumerate(texts(9))])
    alone = cs.ablate(small, corpus, batch_size=4, resamples=0)["ablation"]
    monkeypatch.setitem(ablation.AT_ONCE, "cpu", ablation.AT_ONCE[device])
    beside = cs.ablate(small, corpus, batch_size=4, resamples=0)["ablation"]
    pd.testing.assert_frame_equal(alone, beside, rtol=1e-5, atol=1e-6)


def test_batch_size_changes_nothing(small: LoadedModel) -> None:
    corpus = Corpus.of([Example(text, "abc"[number % 3]) for number, text in enumerate(texts(9))])
    one, other = (cs.ablate(small, corpus, batch_size=size, resamples=20)["ablation"] for size in (1, 9))
    pd.testing.assert_frame_equal(one, other, rtol=1e-5, atol=1e-6)


def test_intervals_are_of_means_over_resampled_texts_and_p_is_that_of_a_paired_t_test() -> None:
    draw = np.random.default_rng(3)
    x = draw.normal(0.3, 1, (50, 3))
    x[:, 1] = np.where(np.arange(50) % 2, x[:, 1], np.nan)
    x[:, 2] = 0.0
    found = paired(x, 4000)
    known = x[1::2, 1]
    assert found.n.tolist() == [50, 25, 50]
    assert found.value[1] == pytest.approx(known.mean())
    assert found.p[:2].tolist() == pytest.approx([scipy.stats.ttest_1samp(y, 0).pvalue for y in (x[:, 0], known)])
    assert (found.value[2], found.sd[2], found.p[2], found.low[2], found.high[2]) == (0, 0, 1, 0, 0)
    expected = scipy.stats.norm.interval(0.95, found.value[0], found.sd[0] * np.sqrt(49 / 50) / np.sqrt(50))
    assert [found.low[0], found.high[0]] == pytest.approx(expected, abs=0.04)
    student = scipy.stats.ttest_1samp(known, 0).confidence_interval(0.95)
    assert (found.low[1], found.high[1]) == pytest.approx(tuple(student))


@pytest.mark.parametrize("n", [2, 3, 5, 8, 29, 30, 60])
def test_intervals_hold_the_mean_in_95_of_100_cases(n: int) -> None:
    x = np.random.default_rng(n).normal(0.3, 1, (n, 4000))
    found = paired(x, 1000)
    share = float(((found.low <= 0.3) & (found.high >= 0.3)).mean())
    # A share of 4,000 is off by .0034, one standard error; a bootstrap of 30 spreads too little by a factor of sqrt(29 / 30).
    expected = 0.95 if n < 30 else 2 * scipy.stats.t.cdf(1.96 * np.sqrt((n - 1) / n), n - 1) - 1
    assert share == pytest.approx(expected, abs=4 * 0.0036)


def test_of_one_text_or_of_few_that_do_not_differ_there_is_no_interval() -> None:
    for x in ([[0.7]], [[1.0]] * 5, [[0.1]] * 3, [[0.7]] * 7, [[0.7], [np.nan], [0.7]]):
        found = paired(np.array(x), 100)
        assert np.isnan([found.low[0], found.high[0]]).all()
    assert np.isnan(paired(np.array([[0.7]]), 100).p[0])
    without = paired(np.random.default_rng(0).normal(size=(40, 2)), 0)
    assert np.isnan([without.low, without.high]).all()


@pytest.mark.parametrize("values", [[1, 1], [-1, -1, -1], [1, 1, 1, 0, 0, -1], [0, 0], [1], [np.nan, 1, 1, 1, 1, 1, 1]])
def test_p_of_answers_is_that_of_an_exact_sign_test(values: list[float]) -> None:
    x = np.array(values, float)[:, None]
    above, below = int((x > 0).sum()), int((x < 0).sum())
    expected = scipy.stats.binomtest(above, above + below).pvalue if above + below else 1.0
    assert paired(x, 10, counted=True).p[0] == pytest.approx(expected)
    if len(set(values)) == 1 < len(values):  # no t-test without a spread
        assert paired(0.1 * x, 10).p[0] == pytest.approx(expected)


def test_holms_correction_is_that_of_its_definition() -> None:
    p = np.array([0.04, 0.001, np.nan, 0.03, 0.03, 0.8])
    assert holm(p).tolist() == pytest.approx([0.12, 0.005, np.nan, 0.12, 0.12, 0.8], nan_ok=True)

    def rejected(level: float) -> set[int]:
        """Step down: the smallest p against level / k, the next against level / (k - 1), until one is not below."""
        found, known = set(), [number for number in np.argsort(p) if not np.isnan(p[number])]
        for place, number in enumerate(known):
            if p[number] > level / (len(known) - place):
                break
            found.add(int(number))
        return found

    for level in (0.004, 0.006, 0.1, 0.13, 0.9):
        assert set(np.flatnonzero(holm(p) <= level + 1e-12)) == rejected(level)


def test_rank_correlation_is_scipys() -> None:
    draw = np.random.default_rng(0)
    x, y = draw.integers(0, 5, (6, 12)).astype(float), draw.normal(size=(6, 12))
    expected = [scipy.stats.spearmanr(one, other).statistic for one, other in zip(x, y, strict=True)]
    assert rank_correlation(x, y).tolist() == pytest.approx(expected)
    assert np.isnan(rank_correlation(np.zeros((1, 5)), y[:1, :5])).all()


@pytest.fixture(scope="module")
def measured(pure: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured") / "out"
    cs.measure(pure, load_corpus("bistro:test").first(20), ["gates", "norms", "sim"], out=folder)
    return folder


def test_what_was_measured_of_heads_stands_beside_their_effects(pure: LoadedModel, measured: Path) -> None:
    effects = cs.ablate(pure, load_corpus("bistro:test").first(20), how="zero", measured=measured, resamples=50)
    heads, result = effects["ablation.heads"].set_index(["layer", "head"]), cs.Result.load(measured)
    norms = result["norms"].dropna(subset="head").set_index(["layer", "head", "kind"]).sort_index()
    sims = result["sim"].dropna(subset="head").set_index(["site", "layer", "head"])["value"]
    gates = result["gates.names"].set_index(["layer", "head"])["gates"]
    for layer, head in heads.index:
        row = heads.loc[(layer, head)]
        assert row["gates"] == gates[layer, head]
        assert row["norm"] == pytest.approx(norms.loc[(layer, head)]["value"].sum())
        assert (row["norm_words"], row["weight_words"]) == tuple(norms.loc[(layer, head, "other")][["value", "weight"]])
        assert (row["sim_key"], row["sim_value"]) == (sims["key", layer, head], sims["value", layer, head])
    predictors = effects["ablation.predictors"].set_index("predictor")["value"]
    assert predictors["norm"] == pytest.approx(scipy.stats.spearmanr(heads["value"].abs(), heads["norm"]).statistic)
    assert predictors["estimate"] == pytest.approx(scipy.stats.spearmanr(heads["value"], heads["estimate"]).statistic)
    of_gates = effects["ablation.gates"].set_index("gate")
    assert of_gates["value"]["all heads"] == pytest.approx(heads["value"].abs().mean())
    assert not {"low", "high"} & set(of_gates)
    assert effects["ablation.predictors"].set_index("predictor")["low"].notna().to_dict() == {
        name: name == "estimate" for name in ("estimate", "norm", "norm_words", "weight_words", "sim_key", "sim_value")
    }
    assert of_gates["noise"]["all heads"] == pytest.approx((heads["sd"] * np.sqrt(2 / np.pi / 20)).mean())
    for gate in of_gates.index.drop("all heads"):
        named = heads["gates"].map(lambda names, gate=gate: gate in names.split(" + "))
        assert of_gates["heads"][gate] == named.sum()
        assert of_gates["value"][gate] == pytest.approx(heads["value"][named].abs().mean())
    assert not [note for note in effects.remarks if "measured on" in note]
    for other in (load_corpus("bistro:validation").first(20), load_corpus("bistro:test").first(19)):
        noted = cs.ablate(pure, other, how="zero", measured=measured, resamples=0, estimates=False).remarks
        assert [note for note in noted if "heads were measured on other texts" in note and "on bistro:test, 20 texts" in note]
    drawn = effects.plot("head-effects").to_dict()
    assert len(drawn["facet"]["sort"]) == 3
    assert effects.plot("ablation") is not None


def test_heads_that_share_keys_have_the_sim_of_the_keys_that_they_read(tmp_path: Path) -> None:
    module = tiny("llama", torch.float64)
    module.config.id2label = {0: "a", 1: "b", 2: "c"}
    model = load_model(module, build_tokenizer([" ".join(WORDS)]))
    corpus = Corpus.of([Example(text) for text in texts(12)])
    cs.measure(model, corpus, ["sim", "norms"], out=tmp_path / "out")
    heads = cs.ablate(model, corpus, how="zero", measured=tmp_path / "out", resamples=0)["ablation.heads"]
    sims = cs.Result.load(tmp_path / "out")["sim"].dropna(subset="head").set_index(["site", "layer", "head"])["value"]
    assert module.config.num_attention_heads == 2 * module.config.num_key_value_heads == 4
    for site in ("key", "value"):
        expected = [sims[site, layer, shared] for layer in (1, 2, 3) for shared in (1, 1, 2, 2)]
        assert heads[f"sim_{site}"].tolist() == expected
        assert len(set(expected)) == 6
    assert heads["norm"].notna().all()


def test_a_report_has_the_question_with_the_tables_of_both_folders(pure: LoadedModel, measured: Path, tmp_path: Path) -> None:
    cs.ablate(pure, load_corpus("bistro:test").first(20), resamples=50, out=tmp_path / "ablated")
    page = cs.report([measured, tmp_path / "ablated"], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What causes the answer?" in page
    assert 'id="figure-ablation"' in page
    assert 'id="table-ablation.heads"' in page


def test_merged_parts_are_the_whole(
    pure: LoadedModel, measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts, options = load_corpus("bistro:test").first(23), {"resamples": 40, "measured": measured, "batch_size": 5}
    whole = cs.ablate(pure, texts, options)
    for part in (1, 2, 3):
        cs.ablate(pure, texts, {**options, "shard": (part, 3)}, tmp_path / str(part))
    assert main(["merge", *(str(tmp_path / part) for part in "312"), "-o", str(tmp_path / "out")]) == 0
    assert "23 examples; tables and provenance written to" in capsys.readouterr().out
    for name in whole:
        merged = pd.read_parquet(tmp_path / "out" / f"{name}.parquet")
        pd.testing.assert_frame_equal(merged, whole[name], rtol=1e-5, atol=1e-6, check_dtype=False)
    provenance = json.loads((tmp_path / "out" / "provenance.json").read_text(encoding="utf-8"))
    assert provenance["seen"] == whole.provenance["seen"]
    assert main(["merge", str(tmp_path / "1"), str(tmp_path / "3"), "-o", str(tmp_path / "two")]) == 0
    assert "not the whole corpus: no shard 2/3" in capsys.readouterr().err
    assert "shard 1/3 is there twice" in refusal(capsys, "merge", tmp_path / "1", tmp_path / "1", "-o", tmp_path / "x")
    cs.ablate(pure, texts, {**options, "how": "zero", "shard": (2, 3)}, tmp_path / "other")
    assert "these are not parts of one result" in refusal(
        capsys, "merge", tmp_path / "1", tmp_path / "other", "-o", tmp_path / "x"
    )
    (tmp_path / "2" / "outcomes.safetensors").write_bytes(b"torn")
    assert "outcomes.safetensors is damaged" in refusal(capsys, "merge", tmp_path / "1", tmp_path / "2", "-o", tmp_path / "x")


def test_the_size_of_effects_that_are_noise_is_told_beside_it() -> None:
    draw, heads = np.random.default_rng(0), 400
    effects = np.zeros((50, 1, heads, len(WHAT)), np.float32)
    effects[..., 0] = draw.normal(0, np.linspace(0.5, 2, heads), (50, 1, heads))
    outcomes = Outcomes(effects, effects[..., 0], np.arange(50), np.full(50, np.nan, np.float32))
    table = gates_table(outcomes, range(heads), pd.DataFrame({"how": "zero", "gates": ["open"] * heads}), ["zero"])
    for _, row in table.iterrows():
        assert row["value"] == pytest.approx(row["noise"], rel=4 * 0.75 / np.sqrt(heads))  # |x| of a normal x: sd / mean = .76


def test_a_part_without_texts_is_a_part(pure: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts, options = load_corpus("bistro:test").first(2), {"resamples": 20}
    whole = cs.ablate(pure, texts, options)
    for part in (1, 2, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = cs.ablate(pure, texts, {**options, "shard": (part, 3)}, tmp_path / str(part))
    assert found.provenance["seen"]["examples"] == 0
    assert "nan" not in str(found)
    assert main(["merge", *(str(tmp_path / part) for part in "123"), "-o", str(tmp_path / "out")]) == 0
    captured = capsys.readouterr()
    assert "2 examples" in captured.out
    assert "not the whole corpus" not in captured.err
    for name in whole:
        merged = pd.read_parquet(tmp_path / "out" / f"{name}.parquet")
        pd.testing.assert_frame_equal(merged, whole[name], rtol=1e-5, atol=1e-6, check_dtype=False)
    with pytest.raises(CorpusError, match="has no examples to ablate"):
        cs.ablate(pure, texts.shard(3, 3), options)


def test_what_is_not_known_is_not_printed(small: LoadedModel) -> None:
    corpus = Corpus.of([Example(text) for text in texts(9)])
    without, drawn = (str(cs.ablate(small, corpus, how="zero", resamples=resamples)) for resamples in (0, 10))
    assert "95 % interval" in drawn
    assert drawn.count("[") > 8
    assert "95 % interval" not in without
    assert "[" not in without
    assert "not distinct from 0 after Holm's correction" in drawn


@pytest.mark.parametrize("preset_name", ["tp9-base", "tp9-positions", "tp9-cls", "tp9-residual"])
def test_without_w_o_the_map_after_the_heads_stands_for_it_or_there_is_nothing_to_ablate(preset_name: str) -> None:
    config = preset(preset_name, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, vocab_size=50, num_labels=3)
    module = SelfAttentionForSequenceClassification(config).eval()
    with Editor(module) as editor:
        if preset_name == "tp9-residual":
            assert editor.layers_of("hidden") == [0, 1, 2]
            with pytest.raises(CaptureError, match="there is nothing to ablate"):
                parts_of(editor)
            return
        assert {part.site for part in parts_of(editor)} == {"context", "output"}
        batch = Batch.of_ids(torch.arange(5, 13)[None], torch.ones(1, 8, dtype=torch.bool))
        returned: list[Tensor] = []
        handle = module.layers[1].feed[0].register_forward_hook(lambda module, given, output: returned.append(output))
        vectors = editor.keep(batch, ("output",)).vectors
        handle.remove()
    assert torch.equal(vectors["output", 2], returned[-1])


class Stopped(BaseException):
    """As Ctrl-C."""


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A run that saves after every batch, and stops in the third."""
    run, done = Run.of_batch, []

    def of_batch(self: Run, batch: Any, references: Any) -> Any:
        done.append(batch)
        if len(done) == 3:
            raise Stopped
        return run(self, batch, references)

    with monkeypatch.context() as patched:
        patched.setattr(saved, "EVERY", 0.0)
        patched.setattr(Run, "of_batch", of_batch)
        yield patched


def test_a_run_that_was_stopped_goes_on_to_the_same_tables(
    small: LoadedModel, tmp_path: Path, stopping: pytest.MonkeyPatch
) -> None:
    examples = [Example(text, "abc"[number % 3], id=str(number)) for number, text in enumerate(texts(17))]
    corpus, options = Corpus.of(examples, "seventeen"), {"batch_size": 4, "resamples": 30}
    with pytest.raises(Stopped):
        cs.ablate(small, corpus, options, tmp_path / "out")
    assert (tmp_path / "out" / "partial" / "outcomes.safetensors").is_file()
    stopping.undo()
    other = [*examples[:2], Example("w1 w2 w3", "a", id="2"), *examples[3:]]
    with pytest.raises(OutputError, match="was left by another run, or the corpus has changed since; remove it to begin anew"):
        cs.ablate(small, Corpus.of(other, "seventeen"), options, tmp_path / "out")
    with pytest.raises(
        OutputError, match="left by a run with batches of 4 texts, and this one has 3; give --batch-size 4 to go on"
    ):
        cs.ablate(small, corpus, {**options, "batch_size": 3}, tmp_path / "out")
    (tmp_path / "out" / "partial" / "state.json").rename(tmp_path / "state.json")
    with pytest.raises(OutputError, match="cannot be read, so the run cannot go on; remove it to begin anew"):
        cs.ablate(small, corpus, options, tmp_path / "out")
    (tmp_path / "state.json").rename(tmp_path / "out" / "partial" / "state.json")
    arrays = tmp_path / "out" / "partial" / "outcomes.safetensors"
    whole_arrays = arrays.read_bytes()
    arrays.write_bytes(whole_arrays[:50])
    with pytest.raises(OutputError, match="cannot be read, so the run cannot go on; remove it to begin anew"):
        cs.ablate(small, corpus, options, tmp_path / "out")
    arrays.write_bytes(whole_arrays)
    again = cs.ablate(small, corpus, options, tmp_path / "out")
    whole = cs.ablate(small, corpus, options)
    for name in whole:
        pd.testing.assert_frame_equal(again[name], whole[name])
    assert not (tmp_path / "out" / "partial").exists()
    assert again.provenance["seen"] == whole.provenance["seen"]


def test_the_command_prints_writes_and_takes_json(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["ablate", str(model), "bistro:test", "--limit", "12", "--resamples", "20", "-o", str(tmp_path / "out")]
    assert main([*command, "--quiet"]) == 0  # six heads: too few for correlations to be shown
    out, err = capsys.readouterr()
    assert "without it (zero): change of the predicted class's logit" in out
    assert f"12 examples; tables and provenance written to {tmp_path / 'out'}" in out
    assert err == ""
    assert {path.name for path in (tmp_path / "out").glob("*.csv")} == {
        f"ablation{end}.csv" for end in ("", ".heads", ".predictors")
    }
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["examples"] == 12
    assert len(found["tables"]["ablation"]) == 2 * 6 * (3 * 2 + 3)
    assert main(["figure", "ablation", str(tmp_path / "out"), "-o", str(tmp_path / "a.svg")]) == 0
    capsys.readouterr()
    assert main(["ablate", str(model), "bistro:test", "--limit", "12", "--how", "mean", "--no-estimates"]) == 0
    out = capsys.readouterr().out
    assert "zero" not in out
    assert "rank correlation" not in out


def test_bad_input_is_refused_in_one_line(
    model: Path, pure: LoadedModel, measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no way 'median' to ablate (did you mean 'mean'?); known: mean, zero" in refusal(
        capsys, "ablate", model, "bistro:test", "--how", "median"
    )
    assert "the way 'zero' is given twice; give it once" in refusal(
        capsys, "ablate", model, "bistro:test", "--how", "zero", "--how", "zero"
    )
    body = tmp_path / "body"
    AutoModel.from_config(tiny("bert").config).save_pretrained(body)
    pure.tokenizer.save_pretrained(body)
    assert "is no classifier, and ablation is of a class; give a model that was trained on labels" in refusal(
        capsys, "ablate", body, "bistro:test"
    )
    said = refusal(capsys, "ablate", model, "bistro:test", "--measured", measured)  # in float64, so other weights
    assert f"{measured} is of another model" in said
    assert "give a folder measured with this one" in said
    assert "holds no tally.json" in refusal(capsys, "ablate", model, "bistro:test", "--measured", tmp_path / "nowhere")
    assert "has the label" in refusal(capsys, "ablate", model, "bistro-stars:test")
    with pytest.raises(ModelError, match="is no classifier"):
        cs.ablate(load_model(body), "bistro:test")
