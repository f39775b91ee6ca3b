"""attribute(): its tables add up, are means over texts, and depend on nothing but model and texts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForSequenceClassification

import conoscope as cs
from commands import refusal
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.causes.attribution import Attributing
from conoscope.causes.attribution_path import Part
from conoscope.causes.attribution_split import Split, Splitter
from conoscope.causes.attribution_tables import Reference, Sums
from conoscope.cli import main
from conoscope.common.errors import MeasureError, ModelError, OutputError
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.figures import FIGURES
from drawings import rows_of
from handmade import decided, texts

KEYS = ["part", "site", "layer", "head"]
SUMMED = ("remainder", "difference")


@pytest.fixture(scope="module")
def handmade() -> LoadedModel:
    return decided()


@pytest.fixture(scope="module")
def effects(handmade: LoadedModel) -> Any:
    return cs.attribute(handmade, texts(), batch_size=7, texts=5)


def splits(loaded: LoadedModel, corpus: Corpus) -> list[tuple[Example, Split, Any]]:
    """The split of each text alone."""
    batcher, found = loaded.batcher(corpus), []
    with Splitter(loaded) as splitter:
        for example in corpus:
            batch = batcher.batch([example])
            found.append((example, splitter(batch), batch))
    return found


def test_every_mean_is_that_of_texts_alone(pure: LoadedModel) -> None:
    corpus = load_corpus("bistro:test").first(13)
    table = cs.attribute(pure, corpus, batch_size=5)["attribution"]
    alone = splits(pure, corpus)
    for _, row in table.iterrows():
        if row["part"] in SUMMED:
            values = [float(getattr(split, row["part"])) for _, split, _ in alone]
        else:
            layer, head = (None if pd.isna(row[name]) else int(row[name]) for name in ("layer", "head"))
            values = [float(split.parts[Part(row["part"], row["site"], layer, head)]) for _, split, _ in alone]
        sizes = [abs(value) / float(split.size) for value, (_, split, _) in zip(values, alone, strict=True)]
        expected = np.mean(values), np.std(values, ddof=1), np.mean(np.abs(values)), max(sizes)
        np.testing.assert_allclose(row[["value", "sd", "size", "largest"]].astype(float), expected, rtol=1e-7, atol=1e-12)
        assert row["n"] == 13


def test_the_parts_add_up_to_the_difference(effects: Any) -> None:
    table = effects["attribution"].set_index("part")
    parts = table.drop(list(SUMMED))
    assert parts["value"].sum() == pytest.approx(table["value"]["difference"], rel=1e-10)
    assert parts["share"].sum() == pytest.approx(1, rel=1e-10)
    assert table["largest"]["remainder"] <= 1e-12


def test_only_the_head_that_is_not_zero_adds_anything(effects: Any) -> None:
    heads = effects["attribution"].query("part == 'head'").set_index(["layer", "head"])["size"]
    assert list(heads[heads > 0].index) == [(2, 3)]
    assert (effects["attribution"].query("part == 'forward'")["size"] == 0).all()


def test_kinds_of_tokens_add_up_to_their_parts(pure: LoadedModel) -> None:
    found = cs.attribute(pure, load_corpus("bistro:test").first(20))
    kinds, table = found["attribution.kinds"], found["attribution"]
    whole = kinds.groupby(["part", "layer", "head"], dropna=False)["value"].sum()
    expected = table[table["part"].isin(["words", "positions", "head"])].set_index(["part", "layer", "head"])["value"]
    pd.testing.assert_series_equal(whole.sort_index(), expected.sort_index(), check_dtype=False, rtol=1e-9)
    tokens = kinds[(kinds["part"] == "words")].set_index("kind")["tokens"]
    batch = pure.batcher(load_corpus("bistro:test")).batch(list(load_corpus("bistro:test").first(20)))
    assert tokens.sum() == pytest.approx(float(batch.real.sum(-1).double().mean()))
    assert tokens["cls"] == 1
    assert "none" not in set(kinds["kind"])


def test_heads_take_from_each_kind_what_they_take_from_its_tokens(handmade: LoadedModel) -> None:
    corpus = Corpus.of([Example(text) for text in texts(6)])
    kinds = cs.attribute(handmade, corpus)["attribution.kinds"].set_index(["part", "layer", "head", "kind"])["value"]
    part, sums = Part("head", "context", 2, 3), {0: 0.0, 1: 0.0, 4: 0.0}
    for _, split, batch in splits(handmade, corpus):
        for token, kind in enumerate(batch.kind[0].tolist()):
            sums[kind] = sums.get(kind, 0.0) + float(split.tokens[part][0, token]) / 6
    for kind, name in enumerate(("cls", "sep", "special", "punctuation", "other")):
        assert kinds["head", 2, 3, name] == pytest.approx(sums.get(kind, 0.0), abs=1e-10)


def test_the_words_of_a_text_have_what_its_tokens_have_and_its_parts_add_up(effects: Any, handmade: LoadedModel) -> None:
    words, single = effects["attribution.words"], effects["attribution.texts"]
    corpus = Corpus.of([Example(text) for text in texts()[:5]])
    for number, (example, split, batch) in enumerate(splits(handmade, corpus), 1):
        mine, rows = words[words["text"] == number], single[single["text"] == number].set_index("part")["value"]
        heads = mine[mine["part"] == "heads"]
        spelled = handmade.tokenizer.convert_ids_to_tokens(batch.inputs["input_ids"][0].tolist())
        inner = list(example.words)
        assert [word for word in heads["word"] if word in inner] == inner
        assert [word for word in spelled if word not in inner] == [word for word in heads["word"] if word not in inner]
        assert heads["value"].sum() == pytest.approx(rows["heads"], rel=1e-9)
        expected = sum(x for part, x in split.tokens.items() if part.part == "head")[0]
        np.testing.assert_allclose(heads["value"], expected.numpy(), atol=1e-10)
        assert rows.drop(list(SUMMED)).sum() == pytest.approx(rows["difference"], rel=1e-9)
        assert rows["difference"] == pytest.approx(float(split.difference))
        names = handmade.labels
        classes = {names[int(split.predicted)]}, {names[int(split.second)]}
        assert (set(mine["predicted"]), set(mine["second"])) == classes
    assert set(single["text"]) == set(range(1, 6))


def test_a_word_of_several_tokens_has_the_sum_of_them(minilm64: LoadedModel) -> None:
    # MiniLM has no classifier: one is drawn.
    torch.manual_seed(0)
    classifier = AutoModelForSequenceClassification.from_config(minilm64.module.config).double().eval()
    loaded = load_model(classifier, minilm64.tokenizer)
    found = cs.attribute(loaded, ["unbelievably tasteless soup!"])
    words = found["attribution.words"].query("part == 'heads'")
    assert list(words["word"]) == ["[CLS]", "unbelievably", "tasteless", "soup!", "[SEP]"]
    rows = found["attribution.texts"].set_index("part")["value"]
    assert words["value"].sum() == pytest.approx(rows["heads"], rel=1e-9)
    assert found["attribution"].set_index("part")["largest"]["remainder"] <= 1e-12


def test_pairs_and_cut_texts_are_split_too(pure: LoadedModel) -> None:
    corpus = Corpus.of([Example("it was good.", "positive", "or was it?"), Example("the soup was not good at all", "negative")])
    found = cs.attribute(pure, corpus, max_length=6)
    words = found["attribution.words"].query("part == 'heads'")
    assert list(words["word"][words["text"] == 1])[:3] == ["<cls>", "it", "was"]
    single = found["attribution.texts"].set_index(["text", "part"])["value"]
    for text in (1, 2):
        assert words["value"][words["text"] == text].sum() == pytest.approx(single[text, "heads"], rel=1e-9)
    assert found.provenance["seen"] == {"examples": 2, "truncated": 2}
    assert "2 of 2 texts were cut off at the longest input" in str(found)


def test_batch_size_and_order_change_nothing(handmade: LoadedModel, effects: Any) -> None:
    again = cs.attribute(handmade, texts(), batch_size=40, texts=5)
    for name in effects:
        pd.testing.assert_frame_equal(again[name], effects[name], rtol=1e-7, atol=1e-10)
    turned = cs.attribute(handmade, texts()[::-1])["attribution"]
    pd.testing.assert_frame_equal(turned, effects["attribution"], rtol=1e-7, atol=1e-10)


def test_what_no_token_has_is_a_kind_of_its_own() -> None:
    """As of attention sinks, which take weight and have no value."""
    part, other = Part("words", "embeddings", 0), Part("head", "context", 1, 1)
    batch = decided().batcher(Corpus.of([Example("w1 w2")])).batch([Example("w1 w2")])
    size = int(batch.real.sum())
    shares = torch.arange(size, dtype=torch.float64)[None]
    one = torch.ones(1, dtype=torch.float64)
    split = Split(
        {part: shares.sum(-1), other: shares.sum(-1) + 0.5},
        {part: shares, other: shares},
        2 * shares.sum(-1) + 0.5,
        0 * one,
        torch.tensor([0]),
        torch.tensor([1]),
    )
    sums = Sums(Reference(("a", "b"), {}, str))
    sums.add(split, batch)
    kinds = sums.tables()["attribution.kinds"]
    none = kinds[kinds["kind"] == "none"]
    assert list(none["part"]) == ["head"]
    assert float(none["value"].iloc[0]) == pytest.approx(0.5)


@pytest.mark.parametrize("shards", [2, 3])
def test_merged_shards_are_the_whole(handmade: LoadedModel, effects: Any, shards: int, tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(shards)]
    for number, folder in enumerate(folders, 1):
        cs.attribute(handmade, texts(), out=folder, texts=5, shard=(number, shards))
    assert main(["merge", *map(str, reversed(folders)), "-o", str(tmp_path / "whole")]) == 0
    for name in effects:
        merged = pd.read_parquet(tmp_path / "whole" / f"{name}.parquet")
        pd.testing.assert_frame_equal(merged, effects[name], rtol=1e-7, atol=1e-10, check_dtype=False)
    provenance = json.loads((tmp_path / "whole" / "provenance.json").read_text(encoding="utf-8"))
    assert provenance["seen"] == {"examples": 40, "truncated": 0}


def test_parts_of_different_models_are_not_merged(
    handmade: LoadedModel, pure: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cs.attribute(handmade, texts(6), out=tmp_path / "a", shard=(1, 2))
    cs.attribute(pure, texts(6), out=tmp_path / "b", shard=(2, 2))
    assert "these are not parts of one result (model" in refusal(
        capsys, "merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "c"
    )


def test_the_command_prints_writes_and_takes_json(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["attribute", str(model), "bistro:test", "--limit", "12", "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "in each of 12 texts the parts add up to the difference" in printed
    assert "the largest single parts" in printed
    assert {"attribution.csv", "attribution.kinds.parquet", "attribution.words.csv", "provenance.json"} <= {
        p.name for p in out.iterdir()
    }
    assert main(["attribute", str(model), "bistro:test", "--limit", "12", "--json", "--quiet", "--texts", "0"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["tables"]) == {"attribution", "attribution.kinds"}
    stored = pd.read_parquet(out / "attribution.parquet")
    np.testing.assert_allclose([row["value"] for row in found["tables"]["attribution"]], stored["value"], rtol=1e-6)
    for name in ("attribution", "attribution-layers", "attribution-words"):
        assert main(["figure", name, str(out), "-o", str(tmp_path / f"{name}.svg")]) == 0
    assert main(["report", str(out), "-o", str(tmp_path / "report.html")]) == 0
    assert "What causes the answer?" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_figures_show_the_numbers_of_the_tables(pure: LoadedModel) -> None:
    found = cs.attribute(pure, load_corpus("bistro:test").first(12))
    table = found["attribution"]
    heads = table[table["part"] == "head"]
    drawn = rows_of(found.plot("attribution"))
    assert [row["value"] for row in drawn] == pytest.approx(list(heads["value"]), rel=1e-4)
    bars = rows_of(found.plot("attribution-layers"))
    whole = float(table["value"][table["part"] == "difference"].iloc[0])
    assert sum(row["value"] for row in bars) == pytest.approx(whole, abs=1e-4)
    layer = sum(row["value"] for row in bars if row["place"] == "2")
    assert layer == pytest.approx(table["value"][table["layer"] == 2].sum(), abs=1e-5)
    words = found["attribution.words"]
    assert FIGURES["attribution-words"].draw({"attribution.words": words}) is not None
    scored = [row for row in rows_of(found.plot("attribution-words")) if row.get("map") == "heads"]
    first = words[(words["text"] == 1) & (words["part"] == "heads")]
    shown = [row["score"] for row in scored[: len(first)]]
    assert shown == pytest.approx(list(first["value"]), rel=1e-3, abs=1e-9)


def test_rounding_is_told(handmade: LoadedModel) -> None:
    module = decided().module.bfloat16()
    found = cs.attribute(load_model(module, handmade.tokenizer), texts(6))
    left = float(found["attribution"].set_index("part")["largest"]["remainder"])
    assert left > 1e-5
    assert "that is rounding in bfloat16; --dtype float64 leaves less" in str(found)


def test_bad_input_is_refused_in_one_line(
    model: Path, minilm_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is no classifier, and attribution is of a class" in refusal(capsys, "attribute", minilm_folder, "bistro:test")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("x", encoding="utf-8")
    assert "holds files that are not" in refusal(capsys, "attribute", model, "bistro:test", "-o", tmp_path / "out")
    (tmp_path / "empty.csv").write_text("text\n", encoding="utf-8")
    assert "empty.csv" in refusal(capsys, "attribute", model, tmp_path / "empty.csv")
    with pytest.raises(MeasureError, match=r"^attribute has no option 'text_count'"):
        cs.attribute(model, "bistro:test", text_count=3)
    with pytest.raises(MeasureError, match=r"^texts=-1 is not a whole number from 0"):
        Attributing(texts=-1)
    with pytest.raises(ModelError, match=r"models come first"):
        cs.attribute(["a text", "another"], model)


def test_another_run_is_not_overwritten(handmade: LoadedModel, tmp_path: Path) -> None:
    cs.attribute(handmade, texts(4), out=tmp_path / "a")
    with pytest.raises(OutputError, match=r"holds other results"):
        cs.attribute(handmade, texts(5), out=tmp_path / "a")
