"""Which vector stands for a text: read from the model's classifier or files, chosen by the user, and told."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, PreTrainedModel

from architectures import CAUSAL, SHAPES, padded, tiny
from commands import refusal
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.capture.recorder import Capture, traces_of
from conoscope.capture.text_vector import text_vector
from conoscope.cli import main
from conoscope.common.errors import MeasureError, OutputError
from conoscope.common.pooling import DEFAULT, POOLS, Declared, Pool, declared_pooling, described, is_classifiers, sourced
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.explaining import Explaining, explain, plausibility
from conoscope.measuring.pipeline import Options, measure, merge
from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.models.tokenizer import build_tokenizer
from conoscope.results.store import read_provenance, write_provenance
from conoscope.training.geometry_callback import geometry

TEXTS = load_corpus("bistro:test").first(24)
OLD = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": False}


def pooling_files(folder: Path, config: object, path: str = "1_Pooling", modules: object = None) -> Path:
    """The files of sentence-transformers in a folder."""
    (folder / path).mkdir(parents=True, exist_ok=True)
    (folder / path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
    listed = [{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": path, "type": "any.where.Pooling"}]
    (folder / "modules.json").write_text(json.dumps(listed if modules is None else modules), encoding="utf-8")
    return folder


def bare(name: str, classifying: bool = True, **shape: Any) -> LoadedModel:
    """A tiny encoder or decoder in float64, without a classifier, that knows the corpus's words."""
    tokenizer = build_tokenizer((e.text for e in TEXTS), classifying)
    torch.manual_seed(0)
    config = type(tiny(name).config)(**SHAPES[name], vocab_size=len(tokenizer), initializer_range=0.3, pad_token_id=0, **shape)
    return load_model(AutoModel.from_config(config, dtype=torch.float64), tokenizer)


def states_of(model: LoadedModel, text: str) -> list[np.ndarray]:
    """The hidden states of every layer of one text alone, by plain transformers."""
    encoded = model.tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        outputs = model.module(**encoded, output_hidden_states=True)
    return [state[0].double().numpy() for state in outputs.hidden_states]


def naive_vector(states: np.ndarray, how: str) -> np.ndarray:
    return {"first": states[0], "last": states[-1], "mean": sum(states) / len(states)}[how]


def naive_cosines(vectors: np.ndarray, labels: list[str]) -> dict[tuple[str, str], float]:
    """The mean cosine of the examples of one class with the mean direction of another, by loops."""
    unit = [vector / np.sqrt((vector**2).sum()) for vector in vectors]
    found = {}
    for made in set(labels):
        direction = sum(u for u, label in zip(unit, labels, strict=True) if label == made)
        direction = direction / np.sqrt((direction**2).sum())
        for gold in set(labels):
            found[made, gold] = float(np.mean([u @ direction for u, label in zip(unit, labels, strict=True) if label == gold]))
    return found


def cosines(frame: pd.DataFrame, layer: int) -> dict[tuple[str, str], float]:
    rows = frame[(frame["site"] == "hidden") & (frame["layer"] == layer) & (frame["representative"] == "mean")]
    return {(row["class"], row["gold"]): row["value"] for _, row in rows.iterrows()}


@pytest.mark.parametrize(
    ("config", "modes", "vector"),
    [
        ({**OLD, "pooling_mode_mean_tokens": True}, ("mean",), "mean"),
        ({**OLD, "pooling_mode_cls_token": True}, ("cls",), "first"),
        ({**OLD, "pooling_mode_lasttoken": True}, ("lasttoken",), "last"),
        ({"word_embedding_dimension": 32}, ("mean",), "mean"),
        ({**OLD, "pooling_mode_max_tokens": True}, ("max",), None),
        ({**OLD, "pooling_mode_weightedmean_tokens": True}, ("weightedmean",), None),
        ({**OLD, "pooling_mode_mean_sqrt_len_tokens": True}, ("mean_sqrt_len_tokens",), None),
        ({"pooling_mode_cls_token": True}, ("cls", "mean"), None),
        ({"pooling_mode": "mean"}, ("mean",), "mean"),
        ({"pooling_mode": "cls"}, ("cls",), "first"),
        ({"pooling_mode": "lasttoken"}, ("lasttoken",), "last"),
        ({"pooling_mode": "max"}, ("max",), None),
        ({"pooling_mode": "cls+mean"}, ("cls", "mean"), None),
        ({"pooling_mode": ["mean"]}, ("mean",), "mean"),
    ],
)
def test_the_files_of_sentence_transformers_tell_the_pooling(
    tmp_path: Path, config: Mapping[str, object], modes: tuple[str, ...], vector: str | None
) -> None:
    found = declared_pooling(str(pooling_files(tmp_path, config)))
    assert found == Declared(modes, "1_Pooling/config.json")
    assert found.vector == vector


def test_where_the_pooling_lies_is_read_from_modules_json_and_guessed_without_it(tmp_path: Path) -> None:
    elsewhere = pooling_files(tmp_path / "one", {"pooling_mode": "mean"}, path="2_Pooling")
    assert declared_pooling(str(elsewhere)) == Declared(("mean",), "2_Pooling/config.json")
    without = pooling_files(tmp_path / "two", {"pooling_mode": "cls"})
    (without / "modules.json").unlink()
    assert declared_pooling(str(without)) == Declared(("cls",), "1_Pooling/config.json")


@pytest.mark.parametrize("broken", ["{", "[]", "7", '{"pooling_mode": 3, "pooling_mode_mean_tokens": false}', "[" * 100_000])
def test_files_that_make_no_sense_are_as_absent(tmp_path: Path, broken: str) -> None:
    assert declared_pooling(str(pooling_files(tmp_path, broken))) is None
    (tmp_path / "modules.json").write_text(broken, encoding="utf-8")
    assert declared_pooling(str(tmp_path)) is None


@pytest.mark.parametrize("path", ["../outside", "/outside", "a/../../outside", "C:outside", "..\\outside", ""])
def test_no_file_outside_of_the_model_is_read(tmp_path: Path, path: str) -> None:
    pooling_files(tmp_path / "outside", {"pooling_mode": "mean"})
    pooling_files(tmp_path, {"pooling_mode": "mean"}, path="outside")
    modules = [{"path": path, "type": "sentence_transformers.models.Pooling"}, "nonsense", {"path": 3, "type": None}]
    inside = pooling_files(tmp_path / "model", {"pooling_mode": "mean"}, modules=modules)
    assert declared_pooling(str(inside)) is None


def test_a_model_of_the_hub_is_read_from_the_cache_and_not_being_able_to_ask_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def unreachable(*names: str) -> bool:
        asked.append(names)
        raise ConnectionError

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub, "file_exists", unreachable)
    cached = tmp_path / "models--someone--encoder"
    pooling_files(cached / "snapshots" / "abc", {"pooling_mode": "lasttoken"})
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc", encoding="utf-8")
    assert declared_pooling("someone/encoder") == Declared(("lasttoken",), "1_Pooling/config.json")
    assert asked == []
    assert declared_pooling("someone/other") is None
    assert asked[0] == ("someone/other", "modules.json")
    assert declared_pooling("no/such/name") is None
    assert declared_pooling("") is None


@pytest.mark.parametrize(
    ("labels", "pool", "phrase", "with_source"),
    [
        ([], Pool("mean", "1_Pooling/config.json"), "the mean of the token vectors", True),
        ([], Pool("first", "1_Pooling/config.json", "[CLS]"), "the first token, [CLS]", True),
        ([], Pool("first", "--pool"), "the first token", True),
        ([], Pool("last", DEFAULT), "the last token", True),
        ([], Pool("cls", DEFAULT, "<cls>"), "the token <cls>", True),
        (["a"], Pool("first", "the classifier", "[CLS]"), "what the classifier reads ([CLS])", False),
        (["a"], Pool("mean", "the classifier"), "what the classifier reads (the mean of the token vectors)", False),
        (["a"], Pool("cls", "the classifier"), "what the classifier reads (the last token)", False),
        (["a"], Pool("mean", "--pool"), "the mean of the token vectors", True),
    ],
)
def test_the_vector_is_told_in_words(labels: list[str], pool: Pool, phrase: str, with_source: bool) -> None:
    provenance = {"model": {"labels": labels}, "pool": pool.provenance()}
    assert described(provenance) == phrase
    assert sourced(provenance) == (f"{phrase} ({pool.by})" if with_source else phrase)
    assert is_classifiers(provenance) == phrase.startswith("what the classifier reads")


@pytest.mark.parametrize("told", [{}, {"pool": None}, {"pool": []}, {"pool": {"vector": "sum", "by": "me"}}])
def test_folders_that_do_not_say_which_vector_it_is_have_words_as_well(told: dict[str, Any]) -> None:
    assert described({"model": {"labels": ["a"]}, **told}) == "what the classifier reads"
    assert described({"model": {"labels": []}, **told}) == "the vector that stands for a text"
    assert sourced({"model": {"labels": []}, **told}) is None


def test_minilm_is_pooled_by_the_mean_as_its_files_say(minilm64: LoadedModel, sentences: Corpus) -> None:
    few = Corpus.of([e for e in sentences if e.pair is None], "sentences").first(20)
    labels = [str(e.label) for e in few]
    result = measure(minilm64, few, ["class_cones"], Options(dtype="float64", batch_size=7))
    assert result.provenance["pool"] == {"vector": "mean", "by": "1_Pooling/config.json"}
    states = [states_of(minilm64, e.text) for e in few]
    for layer in (0, 3, 6):
        expected = naive_cosines(np.stack([naive_vector(of_text[layer], "mean") for of_text in states]), labels)
        assert cosines(result["class_cones"], layer) == pytest.approx(expected, abs=1e-9)
    first = measure(minilm64, few, ["class_cones"], Options(dtype="float64", pool="first"))
    assert first.provenance["pool"] == {"vector": "first", "by": "--pool", "token": "[CLS]"}
    expected = naive_cosines(np.stack([naive_vector(of_text[6], "first") for of_text in states]), labels)
    assert cosines(first["class_cones"], 6) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("name", ["bert", "modernbert", "mpnet", "gpt2", "llama"])
def test_every_pool_equals_plain_transformers_text_by_text(name: str, pool: str) -> None:
    model = bare(name)
    result = measure(model, TEXTS, ["class_cones", "capacity"], Options(dtype="float64", pool=pool, batch_size=5))
    assert result.provenance["pool"]["vector"] == pool
    labels = [str(e.label) for e in TEXTS]
    states = [states_of(model, e.text) for e in TEXTS]
    for layer in (1, 3):
        expected = naive_cosines(np.stack([naive_vector(of_text[layer], pool) for of_text in states]), labels)
        assert cosines(result["class_cones"], layer) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_padding_is_not_pooled(name: str, pool: str, left: bool) -> None:
    module = tiny(name, torch.float64)
    batch = padded(extra=2, left=left)
    answers = []
    with Capture(module, "kv", vector=POOLS[pool]) as capture:
        capture(batch, lambda trace: None, answers.append)
    for answer, trace in zip(answers, traces_of(module, batch), strict=True):
        assert answer.there.all()
        for site in ("hidden", "key", "value"):
            whole = trace.whole(site)
            if whole is not None:
                expected = [naive_vector(row[real].numpy(), pool) for row, real in zip(whole, batch.real, strict=True)]
                np.testing.assert_allclose(getattr(answer, site).numpy(), np.stack(expected), atol=1e-12)


@pytest.mark.parametrize("name", SHAPES)
def test_without_classifier_and_files_decoders_have_the_last_token_and_encoders_their_first(name: str) -> None:
    found = text_vector(bare(name))
    assert found == (Pool("last", DEFAULT) if name in CAUSAL else Pool("cls", DEFAULT, "<cls>"))


def test_an_encoder_whose_tokenizer_marks_no_beginning_has_its_first_token() -> None:
    assert text_vector(bare("bert", classifying=False)) == Pool("first", DEFAULT)


def saved(module: PreTrainedModel, folder: Path) -> Path:
    module.save_pretrained(folder)
    build_tokenizer(e.text for e in TEXTS).save_pretrained(folder)
    return folder


def test_a_classifier_keeps_its_own_vector_whatever_lies_beside_it(model: Path, tmp_path: Path, pure: LoadedModel) -> None:
    folder = pooling_files(Path(shutil.copytree(model, tmp_path / "model")), {"pooling_mode": "mean"})
    asked = ["class_cones"]
    result, plain = measure(folder, TEXTS, asked), measure(model, TEXTS, asked)
    assert result.provenance["pool"] == {"vector": "first", "by": "the classifier", "token": "<cls>"}
    assert described(result.provenance) == "what the classifier reads (<cls>)"
    assert cosines(result["class_cones"], 3) == cosines(plain["class_cones"], 3)
    states = [states_of(load_model(model), e.text) for e in TEXTS]
    expected = naive_cosines(np.stack([of_text[3][0] for of_text in states]), [str(e.label) for e in TEXTS])
    assert cosines(plain["class_cones"], 3) == pytest.approx(expected, abs=1e-5)


def test_with_a_classifier_another_vector_can_be_asked_for_and_is_then_not_called_its_own(model: Path) -> None:
    result = measure(model, TEXTS, ["class_cones"], Options(pool="mean"))
    assert result.provenance["pool"] == {"vector": "mean", "by": "--pool"}
    assert described(result.provenance) == "the mean of the token vectors"
    states = [states_of(load_model(model), e.text) for e in TEXTS]
    expected = naive_cosines(np.stack([naive_vector(of_text[3], "mean") for of_text in states]), [str(e.label) for e in TEXTS])
    assert cosines(result["class_cones"], 3) == pytest.approx(expected, abs=1e-5)
    same = measure(model, TEXTS, ["class_cones"], Options(pool="first"))
    assert same.provenance["pool"]["by"] == "the classifier"


def test_a_mean_is_found_in_the_classifier_too() -> None:
    torch.manual_seed(0)
    tokenizer = build_tokenizer((e.text for e in TEXTS), classifying=False)
    config = preset("tp9-base", vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2)
    config.id2label = {0: "negative", 1: "positive"}
    model = SelfAttentionForSequenceClassification(config)
    assert text_vector(load_model(model, tokenizer)) == Pool("mean", "the classifier")
    assert {"separation_1", "separation_2"} <= geometry(model, tokenizer, TEXTS).keys()


def test_a_pooling_that_is_not_supported_is_said_and_the_default_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = pooling_files(saved(bare("bert").module.float(), tmp_path / "model"), {"pooling_mode": "max"})
    texts = tmp_path / "texts.csv"
    texts.write_text("text,label\n" + "".join(f'"{e.text}",{e.label}\n' for e in TEXTS), encoding="utf-8")
    assert main(["measure", str(folder), str(texts), "-m", "class_cones", "-o", str(tmp_path / "out")]) == 0
    note = f"{folder} pools by max (1_Pooling/config.json), which is not supported: measured is the default of a model"
    assert f"conoscope: {note}" in capsys.readouterr().err
    provenance = read_provenance(tmp_path / "out")
    assert (provenance["pool"]["vector"], provenance["pool"]["by"]) == ("cls", DEFAULT)
    assert any(said.startswith(note) for said in provenance["notes"])
    assert text_vector(load_model(folder), "mean") == Pool("mean", "--pool")


@pytest.mark.parametrize("name", ["cls", "max", "", "FIRST"])
def test_a_pool_that_is_not_known_is_refused_in_one_line(name: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = f"conoscope: no pool {name!r}; known: first, last, mean\n"
    assert refusal(capsys, "measure", model, "bistro:test", "-m", "class_cones", f"--pool={name}") == told
    assert refusal(capsys, "explain", model, "--words", "good", f"--pool={name}") == told
    with pytest.raises(MeasureError, match="no pool 'sum'; known: first, last, mean"):
        measure(model, TEXTS, options=Options(pool="sum"))
    with pytest.raises(MeasureError, match="no pool 'sum'; known: first, last, mean"):
        Explaining(pool="sum")


def test_runs_of_different_vectors_are_neither_merged_nor_resumed(model: Path, tmp_path: Path) -> None:
    for number, pool in ((1, None), (2, "mean")):
        measure(model, TEXTS, ["class_cones"], Options(shard=(number, 2), pool=pool), tmp_path / str(number))
    with pytest.raises(OutputError, match="not parts of one result \\(pool the classifier, not mean\\)"):
        merge([tmp_path / "1", tmp_path / "2"])
    with pytest.raises(OutputError, match="holds other results \\(pool the classifier, not last\\)"):
        measure(model, TEXTS, ["class_cones"], Options(shard=(1, 2), pool="last"), tmp_path / "1")
    measure(model, TEXTS, ["class_cones"], Options(shard=(1, 2), pool="mean"), tmp_path / "3")
    assert merge([tmp_path / "3", tmp_path / "2"]).provenance["pool"]["vector"] == "mean"


def test_an_earlier_folder_of_a_classifier_is_of_its_own_vector(model: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        measure(model, TEXTS, ["class_cones"], Options(shard=(number, 2)), tmp_path / str(number))
    told = read_provenance(tmp_path / "1")
    del told["pool"]
    write_provenance(tmp_path / "1", told)
    assert described(merge([tmp_path / "1", tmp_path / "2"]).provenance) == "what the classifier reads"


def test_maps_are_read_from_the_rows_of_that_vector(minilm: LoadedModel) -> None:
    text = Example("the soup was not good", "negative", rationale=(False, False, False, True, True))
    made = {pool: list(explain(minilm, [text], ["attention"], Explaining(pool=pool))) for pool in (None, *POOLS)}
    found = {pool: explanations[0].maps["attention"] for pool, explanations in made.items()}
    weights = traces_of(minilm.module, minilm.batcher(Corpus.of([Example(text.text)], "one")).batch([text]))[-1].weights
    rows = weights[0].mean(0).double().numpy()
    words = slice(1, 6)  # one token a word, between [CLS] and [SEP]
    np.testing.assert_allclose(found[None], rows.mean(0)[words], atol=1e-6)
    np.testing.assert_allclose(found["mean"], rows.mean(0)[words], atol=1e-6)
    np.testing.assert_allclose(found["first"], rows[0][words], atol=1e-6)
    np.testing.assert_allclose(found["last"], rows[-1][words], atol=1e-6)
    judged = plausibility(minilm, Corpus.of([text], "one"), ["attention"])
    assert judged.provenance["pool"] == {"vector": "mean", "by": "1_Pooling/config.json"}
    assert "pool" not in plausibility(minilm, Corpus.of([text], "one"), ["random"]).provenance


def test_the_weights_alone_have_no_text_and_no_vector(model: Path) -> None:
    assert "pool" not in measure(model).provenance


def test_a_decoder_that_passes_over_padding_at_the_end_of_a_text_keeps_that_token_and_last_is_the_very_last() -> None:
    tokenizer = build_tokenizer((e.text for e in TEXTS), classifying=False)
    tokenizer.pad_token = tokenizer.unk_token
    torch.manual_seed(0)
    config = type(tiny("gpt2").config)(**SHAPES["gpt2"], vocab_size=len(tokenizer), initializer_range=0.3, num_labels=2)
    config.pad_token_id = tokenizer.unk_token_id
    model = load_model(AutoModelForSequenceClassification.from_config(config, dtype=torch.float64), tokenizer)
    assert text_vector(model) == Pool("cls", "the classifier")
    assert described({"model": {"labels": ["a"]}, "pool": text_vector(model).provenance()}).endswith("(the last token)")
    texts = [Example("the soup was zzz", id="ends unknown"), Example("the soup was", id="ends known")]
    batch = model.batcher(Corpus.of(texts, "two")).batch(texts)
    states = [states_of(model, example.text)[-1] for example in texts]
    for pool, places in ((None, (-2, -1)), ("last", (-1, -1))):
        found = []
        with Capture(model.module, "kv", vector=text_vector(model, pool).instead) as capture:
            capture(batch, lambda trace: None, found.append)
        expected = np.stack([state[place] for state, place in zip(states, places, strict=True)])
        np.testing.assert_allclose(found[-1].hidden.numpy(), expected, atol=1e-9)
