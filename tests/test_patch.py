"""Patching: where the answer to one text follows another, held to what must come out, and to models in which it is known."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import conoscope as cs
from architectures import tiny
from commands import refusal
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.causes import patching
from conoscope.cli import main
from conoscope.common.errors import CorpusError
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.corpora.bistro import bistro, split_of
from conoscope.corpora.bistro_pairs import bistro_pairs
from conoscope.models.tokenizer import build_tokenizer
from handmade import HEAD, LAYER, WORDS, averaging, decided, texts

PAIRS = load_corpus("bistro-pairs:test")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """A small model that answers most minimal pairs right."""
    folder = tmp_path_factory.mktemp("trained") / "model"
    cs.train("bistro", folder, layers=2, epochs=4)
    return load_model(folder)


def shares(effects: Any, what: str = "flipped") -> dict[tuple[str, int], float]:
    table = effects["patch"][effects["patch"]["what"] == what]
    return {(row["tokens"], row["layer"]): row["value"] for _, row in table.iterrows()}


def test_the_differing_word_decides_in_layer_0_and_the_classifying_token_in_the_last(trained: LoadedModel) -> None:
    effects = cs.patch(trained, PAIRS, limit=60, resamples=50)
    found, seen = shares(effects), effects.provenance["seen"]
    assert seen["examples"] == 120
    assert seen["pairs"] > 40  # those that it answers right
    assert found["differing", 0] == found["classifying", 2] == 1
    assert found["other", 0] <= 0.05
    assert found["other", 2] == found["differing", 2] == found["classifying", 0] == 0
    table = effects["patch"]
    assert (table["n"] == seen["pairs"]).all()
    assert "share of" in str(effects)
    assert f"{seen['pairs']} pairs" in str(effects)
    assert effects.plot("patch") is not None
    assert effects.plot("patch-tokens") is not None


@pytest.fixture(scope="module")
def pairs() -> Corpus:
    """Pairs of random texts of equal length, of words of the model made by hand."""
    one, other = ([text.split() for text in texts(40, seed)] for seed in (1, 2))
    both = [(a, b[: len(a)] + a[len(b) :]) for a, b in zip(one, other, strict=True)]
    return Corpus.of([Example(" ".join(words)) for pair in both for words in pair], "random pairs")


def test_the_layer_the_place_and_the_head_that_decide_are_named(pairs: Corpus) -> None:
    model = decided()
    found = shares(cs.patch(model, pairs), "moved")
    for layer in range(4):
        assert found["classifying", layer] == pytest.approx(float(layer >= LAYER), abs=1e-9)
    assert shares(cs.patch(model, pairs))["classifying", LAYER] == 1
    output = shares(cs.patch(model, pairs, site="output"), "moved")
    for layer in (1, 2, 3):
        assert output["classifying", layer] == pytest.approx(float(layer == LAYER), abs=1e-9)
    effects = cs.patch(model, pairs, site="context")
    of = effects["patch"].query("what == 'moved' and tokens == 'classifying'").set_index(["layer", "head"])["value"]
    assert of[LAYER, HEAD] == pytest.approx(1)
    assert of.drop((LAYER, HEAD)).abs().max() < 1e-9
    assert str(effects).splitlines()[1].startswith("head 2.3  ")


@pytest.mark.parametrize("name", ["bert", "llama", "deberta", "distilbert", "modernbert"])
def test_patching_equals_a_run_with_vectors_that_a_hook_brings(name: str, pairs: Corpus) -> None:
    """Layers are found by name here: the first module of a list, whose output is replaced at one place."""
    module = tiny(name, torch.float64)
    module.config.id2label = {0: "a", 1: "b", 2: "c"}
    model = load_model(module, build_tokenizer([" ".join(WORDS)]))
    effects = cs.patch(model, pairs)
    table = effects["patch.tokens"].set_index(["pair", "layer", "place"])
    examples = list(pairs)
    blocks = next(part for part in module.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == 3)
    for number in sorted({pair for pair, _, _ in table.index})[:3]:
        source, target = (model.tokenizer(examples[2 * number - 2 + at].text, return_tensors="pt") for at in (0, 1))
        for layer in (1, 2):  # the last one may be read before a norm
            kept: list[Any] = []
            handle = blocks[layer - 1].register_forward_hook(lambda module, given, returned, kept=kept: kept.append(returned))
            with torch.no_grad():
                one, other = model.module(**source).logits[0], model.module(**target).logits[0]
            handle.remove()
            for place in (1, 3):

                def bring(module: Any, given: Any, returned: Any, place: int = place, kept: list[Any] = kept) -> Any:
                    first = (returned if isinstance(returned, torch.Tensor) else returned[0]).clone()
                    first[:, place - 1] = (kept[0] if isinstance(kept[0], torch.Tensor) else kept[0][0])[:, place - 1]
                    return first if isinstance(returned, torch.Tensor) else (first, *returned[1:])

                handle = blocks[layer - 1].register_forward_hook(bring)
                with torch.no_grad():
                    logits = model.module(**target).logits[0]
                handle.remove()
                a, b = int(one.argmax()), int(other.argmax())
                margin = [float(x[a] - x[b]) for x in (one, other, logits)]
                row = table.loc[(number, layer, place)]
                assert row["value"] == pytest.approx((margin[2] - margin[1]) / (margin[0] - margin[1]), abs=1e-6)
                assert row["flipped"] == (int(logits.argmax()) == a)
                assert row["probability"] == pytest.approx(float(logits.softmax(-1)[a]))


def test_copies_and_batches_change_nothing(pairs: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    model = decided()
    many = cs.patch(model, pairs)["patch.tokens"]
    monkeypatch.setitem(patching.ROOM, "cpu", 1)
    one = cs.patch(model, pairs, batch_size=1)["patch.tokens"]
    assert many["value"].tolist() == pytest.approx(one["value"].tolist(), abs=1e-9)
    assert many.drop(columns=["value", "probability", "sd"]).equals(one.drop(columns=["value", "probability", "sd"]))


def test_kinds_of_places_are_told_apart() -> None:
    model = decided()
    examples = [Example("w1 w2 w3"), Example("w1 w9 w3")]
    batcher = model.batcher(Corpus.of(examples))
    from conoscope.causes.pairs import answered, pairs_of

    (found,) = answered(model, list(pairs_of(Corpus.of(examples), batcher)), batcher, 4)
    tokens = model.tokenizer.convert_ids_to_tokens(found.target.inputs["input_ids"][0].tolist())
    kinds = dict(zip(tokens, found.kinds()[0].tolist(), strict=True))
    assert (kinds["w9"], kinds["w1"], kinds["w3"], found.kinds()[0, 0].item()) == (0, 2, 2, 1)


def test_a_model_that_reads_all_tokens_has_no_classifying_token(pairs: Corpus) -> None:
    table = cs.patch(averaging(), pairs, resamples=0)["patch"]
    assert set(table["tokens"]) == {"differing", "other"}


def test_a_decoder_is_read_at_its_last_token(pairs: Corpus) -> None:
    module = tiny("llama")
    module.config.id2label = {0: "a", 1: "b", 2: "c"}
    model = load_model(module, build_tokenizer([" ".join(WORDS)]))
    effects = cs.patch(model, Corpus.of([Example(f"{e.text} w7") for e in pairs]))
    assert shares(effects)["differing", 0] == 1
    assert shares(effects)["classifying", 3] == 1
    assert re.search("^classifying token  ", str(effects), re.MULTILINE)
    last = [Example(e.text + (" w7" if number % 8 > 1 else f" w{number}")) for number, e in enumerate(pairs)]
    effects = cs.patch(model, Corpus.of(last), resamples=0)
    (n,) = set(effects["patch"].query("tokens == 'classifying'")["n"])
    counted = effects.provenance["seen"]["pairs"]
    assert 1 < n < counted  # where the last words differ they are moved with the differing ones
    assert f"share of {counted} pairs" in str(effects)
    assert re.search(rf"^classifying token \({n} pairs\)  ", str(effects), re.MULTILINE)


def test_pairs_of_bistro_differ_in_one_word_that_decides_and_stay_in_their_split() -> None:
    sentences = {split: {e.text for e in bistro(split)} for split in ("train", "validation", "test")}
    for split in ("train", "validation", "test"):
        found = list(bistro_pairs(split))
        assert len({e.text for e in found}) == len(found)
        for one, other in zip(found[::2], found[1::2], strict=True):
            a, b = one.text.split(), other.text.split()
            differ = [x != y for x, y in zip(a, b, strict=True)]
            assert sum(differ) == 1
            assert one.rationale == other.rationale == tuple(differ)
            assert {one.label, other.label} == {"negative", "positive"}
        elsewhere = set().union(*(texts for name, texts in sentences.items() if name != split))
        assert not elsewhere & {e.text for e in found}
    assert [e.text for e in bistro_pairs("test")] == [e.text for e in bistro_pairs("test")]
    assert [e.text for e in bistro_pairs("test", seed=1)] != [e.text for e in bistro_pairs("test")]
    assert split_of("the soup was *good") == split_of("the soup was good")
    with pytest.raises(CorpusError, match="cannot make 7 examples of bistro-pairs: expected an even number from 2 to 50000"):
        bistro_pairs("test", size=7)


def test_the_command_prints_writes_and_takes_json(
    trained: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["patch", trained.name, "bistro-pairs:test", "--limit", "9", "-o", str(tmp_path / "out"), "--quiet"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert re.search(r"^differing tokens +100.0% ", out, re.MULTILINE)
    assert "18 examples; tables and provenance written to" in out
    assert {path.name for path in (tmp_path / "out").glob("*.csv")} == {"patch.csv", "patch.tokens.csv"}
    assert err == ""
    assert main(["patch", trained.name, "--from", "the soup was good.", "--to", "the soup was bad.", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["examples"] == 2
    assert {row["layer"] for row in found["tables"]["patch.tokens"]} == {0, 1, 2}
    assert main(["patch", trained.name, "--from", "the soup was good.", "--to", "the soup was bad."]) == 0
    out = capsys.readouterr().out
    assert "with the vector of each place\n* the answer is positive then, by layer" in out
    assert "5 bad (good)" in out
    assert main(["report", str(tmp_path / "out"), "-o", str(tmp_path / "r.html")]) == 0
    assert "What causes the answer?" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_bad_input_is_refused_in_one_line(trained: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = trained.name

    def said(*arguments: object) -> str:
        return refusal(capsys, "patch", model, *arguments)

    two = ("--from", "the soup was good", "--to")
    assert (
        "the first text has 5 tokens and the second 4, and a vector is moved to the same place of the other text; give texts of "
        "equal length"
    ) in said(*two, "it was bad")
    assert "answers both texts with 'positive', so no answer can move; give texts with different answers" in said(
        *two, "the soup was tasty"
    )
    assert "no site 'hiden' to patch (did you mean 'hidden'?); known: context, forward, hidden, output" in said(
        *two, "the soup was bad", "--site", "hiden"
    )
    assert "nothing to patch; give --from" in said("--from", "the soup was good")
    assert "nothing to patch; give --from" in said()
    assert "two things to patch, 'bistro-pairs:test' and a pair of texts; give one of them" in said(
        "bistro-pairs:test", *two, "x"
    )
    assert "these are not two texts; give two, or a corpus of pairs alone" in said(*two, " ")
    assert "--limit does nothing without a corpus; leave it out" in said(*two, "the soup was bad", "--limit", "3")
    (tmp_path / "three.csv").write_text("text\none soup\ntwo soup\nsix soup\n", encoding="utf-8")
    assert "has 3 texts, which are no pairs; give an even number, each two in a row of one length" in said(tmp_path / "three.csv")
    assert "give texts of equal length" in said("bistro:test")
    body = tmp_path / "body"
    tiny("bert").bert.save_pretrained(body)
    trained.tokenizer.save_pretrained(body)
    message = refusal(capsys, "patch", body, *two, "the soup was bad")
    assert "is no classifier, and patching is of a class; give a model that was trained on labels" in message
