"""Frequency against a loop over tokens, frequencies from files, and kinds of the user's own."""

import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerBase

from conoscope.capture.batcher import TokenAnnotations
from conoscope.capture.frequencies import load_ranks
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.capture.recorder import traces_of
from conoscope.capture.token_kinds import Kinds
from conoscope.cli import main
from conoscope.common.errors import CorpusError, MeasureError, OutputError
from conoscope.common.vocabulary import KINDS
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.measuring.pipeline import Options, measure
from textbook import Text, cells, length, naive_spearman, texts

TEXTS = ["the soup was cold, not good.", "we loved the bread", "no soup, no bread, no fish", "the fish was good and the soup too"]


@pytest.fixture(scope="module")
def few() -> Corpus:
    return Corpus.of([*map(Example, TEXTS), *load_corpus("bistro:test").first(20)], "a few")


@pytest.fixture(scope="module")
def layers(minilm64: LoadedModel, few: Corpus) -> list[tuple[Counter[int], list[tuple[int, bool, list[float], list[float]]]]]:
    """For every layer: how often each id comes, and of each token its id, whether it is of content, ‖f‖ and mean weight."""
    batcher, special = minilm64.batcher(few), {*minilm64.tokenizer.all_special_ids}
    found: list[tuple[Counter[int], list]] = [(Counter(), []) for _ in range(6)]
    for example in few:
        batch = batcher.batch([example])
        ids = batch.inputs["input_ids"][0].tolist()
        for trace, (counts, tokens) in zip(traces_of(minilm64.module, batch)[1:], found, strict=True):
            (text,) = texts(trace)
            counts.update(ids)
            tokens += [(token, token not in special, *of_token(text, j)) for j, token in enumerate(ids)]
    return found


def of_token(text: Text, j: int) -> tuple[float, float]:
    """The mean over heads of ‖f(x_j)‖, and of the weight that j receives, mean over queries."""
    lengths = [length(f) for f in text.f[:, j]]
    return sum(lengths) / len(lengths), float(text.a[:, :, j].mean())


def expected(tokens: list, rank: dict[int, float], of: str, which: str) -> tuple[float, int]:
    chosen = [token for token in tokens if which == "all" or token[1]]
    numbers = [token[2 if of == "norm" else 3] for token in chosen]
    return naive_spearman(np.array([rank[token[0]] for token in chosen], dtype=float), np.array(numbers)), len(chosen)


def averaged(layers: list) -> list:
    return [
        (token[0], token[1], np.mean([t[2] for t in same]), np.mean([t[3] for t in same]))
        for same in zip(*(tokens for _, tokens in layers), strict=True)
        for token in same[:1]
    ]


def assert_correlations(frame, layers: list, by: str, rank: dict[int, float]) -> None:  # type: ignore[no-untyped-def]
    found = cells(frame[frame["by"] == by], "layer", "what", "tokens")
    assert len(found) == 7 * 2 * 2
    rows = {**{number: tokens for number, (_, tokens) in enumerate(layers, 1)}, None: averaged(layers)}
    for layer, of, which in itertools.product(rows, ("norm", "weight"), ("all", "content")):
        value, n = expected(rows[layer], rank, of, which)
        assert found[layer, of, which]["value"] == pytest.approx(value, abs=1e-9)
        assert found[layer, of, which]["n"] == n


def test_correlations_with_counts_of_the_corpus_equal_a_loop(minilm64: LoadedModel, few: Corpus, layers: list) -> None:
    frame = measure(minilm64, few, ["frequency"], Options(batch_size=5))["frequency"]
    assert set(frame["by"]) == {"corpus"}
    assert list(frame.columns[4:7]) == ["what", "by", "tokens"]
    assert_correlations(frame, layers, "corpus", {token: -count for token, count in layers[0][0].items()})


def test_the_summary_tells_norms_from_weights(minilm: LoadedModel, few: Corpus) -> None:
    result = measure(minilm, few, ["frequency"])
    rows = [line.split() for line in result.summary().splitlines() if "whole" in line]
    assert len(rows) == 4
    first = result["frequency"]
    first = first[(first["layer"] == 1) & (first["tokens"] == "content")].set_index("what")["value"]
    assert [row[-6] for row in rows if "content" in row] == [f"{first[what]:.3f}" for what in ("norm", "weight")]


def test_correlations_with_ranks_of_a_file_equal_a_loop(minilm64: LoadedModel, few: Corpus, layers: list, tmp_path: Path) -> None:
    """Half of the tokens are listed, with ties; the others come after the last."""
    ids = sorted(layers[0][0])
    listed = {token: 1 + number // 3 for number, token in enumerate(ids[::2])}
    path = tmp_path / "ranks.csv"
    path.write_text("id,rank\n" + "".join(f"{token},{rank}\n" for token, rank in listed.items()), encoding="utf-8")
    frame = measure(minilm64, few, ["frequency"], Options(frequencies=path))["frequency"]
    assert set(frame["by"]) == {"corpus", "file"}
    assert_correlations(frame, layers, "file", {token: listed.get(token, max(listed.values()) + 1) for token in ids})


def test_of_many_tokens_those_with_the_smallest_hash_are_taken_and_the_same_in_every_cut(
    minilm: LoadedModel, monkeypatch: pytest.MonkeyPatch, few: Corpus
) -> None:
    monkeypatch.setattr("conoscope.quantities.kinds.OCCURRENCES", 50)
    whole = measure(minilm, few, ["frequency"], Options(batch_size=24))["frequency"]
    cut = [measure(minilm, few, ["frequency"], Options(batch_size=3, shard=(number, 3))) for number in (2, 1, 3)]
    merged = (cut[0] + cut[1] + cut[2])["frequency"]
    assert set(whole[whole["tokens"] == "all"]["n"]) == {50}
    np.testing.assert_allclose(whole["value"].to_numpy(float), merged["value"].to_numpy(float), atol=1e-5)
    assert list(whole["n"]) == list(merged["n"])


@pytest.fixture
def tokenizer(minilm: LoadedModel) -> PreTrainedTokenizerBase:
    return minilm.tokenizer


FILES = {
    "ranks.csv": "id,rank\n1996,1\n1012,2\n1010,3\n",
    "ranks.tsv": "rank\tid\n1\t1996\n2\t1012\n3\t1010\n",
    "tokens.csv": 'token,count\nthe,900\n.,70\n",",5\nnosuchtoken,4\n',
    "tokens.tsv": "token\tcount\nthe\t900\n.\t70\n,\t5\n",
    "tokens.jsonl": '{"token": "the", "count": 900}\n{"token": ".", "count": 70}\n{"token": ",", "count": 5}\n',
    "ranks.jsonl": '{"id": 1996, "rank": 1}\n{"id": 1012, "rank": 2.5}\n{"id": 1010, "rank": 3}\n{"id": 99999999, "rank": 4}\n',
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_orders_the_tokens_that_it_lists_and_puts_all_others_after_them(
    name: str, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    found = load_ranks(tmp_path / name, tokenizer, 30522)
    assert found.shape == (30522,)
    the, stop, comma = (float(found[token]) for token in (1996, 1012, 1010))
    others = torch.cat((found[:1010], found[1011:1012], found[1013:1996], found[1997:]))
    assert the < stop < comma < float(others.min()) == float(others.max())


def test_counts_that_are_equal_share_a_rank_and_a_count_of_0_still_comes_before_what_is_not_listed(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    (tmp_path / "counts.csv").write_text("id,count\n5,7\n6,7\n8,0\n", encoding="utf-8")
    found = load_ranks(tmp_path / "counts.csv", tokenizer, 10)
    assert found[5] == found[6] < found[8] < found[9] == found[0]


BAD = {
    "nosuch.csv": (None, r"no file .*nosuch.csv; give the path of a .*\.csv.* file"),
    "ranks.txt": ("1996 1\n", r"ranks.txt is of no known kind; give a "),
    "columns.csv": ("word,often\nthe,1\n", r"columns.csv has the columns often, word; it needs id or token, and rank or count"),
    "half.csv": ("id,often\n3,1\n", r"half.csv has the columns id, often; it needs id or token, and rank or count"),
    "words.csv": ("id,rank\n1996,1\n1012,second\n", r"words.csv:3: 'second' is not a number; correct the row"),
    "nan.csv": ("id,rank\n1996,nan\n", r"nan.csv:2: 'nan' is not a number; correct the row"),
    "infinite.csv": ("id,count\n1996,inf\n", r"infinite.csv:2: 'inf' is not a number; correct the row"),
    "ids.csv": ("id,rank\nthe,1\n", r"ids.csv:2: 'the' is not a number; correct the row"),
    "fraction.csv": ("id,rank\n3.7,1\n", r"fraction.csv:2: '3.7' is no token id; correct the row"),
    "null.jsonl": ('{"id": 3, "rank": null}\n', r"null.jsonl:1: None is not a number; correct the row"),
    "other.csv": (
        "token,rank\nĠthe,1\n▁the,2\n",
        r"other.csv lists no token that the model knows; check whether it is of another",
    ),
    "large.csv": (
        "id,rank\n500000,1\n",
        r"large.csv lists no token that the model knows; check whether it is of another tokenizer",
    ),
    "empty.csv": ("id,rank\n", r"empty.csv lists no token that the model knows"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_read_is_one_clear_line(name: str, tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    content, message = BAD[name]
    if content is not None:
        (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(CorpusError, match=message) as raised:
        load_ranks(tmp_path / name, tokenizer, 30522)
    assert "\n" not in str(raised.value)


def test_results_by_other_frequencies_do_not_merge(minilm: LoadedModel, few: Corpus, tmp_path: Path) -> None:
    for name, rank in (("a", 1), ("b", 2)):
        (tmp_path / f"{name}.csv").write_text(f"id,rank\n1996,{rank}\n1012,3\n", encoding="utf-8")
    parts = [
        measure(minilm, few, ["frequency"], Options(shard=(number, 2), frequencies=tmp_path / f"{name}.csv"))
        for number, name in ((1, "a"), (2, "b"))
    ]
    with pytest.raises(OutputError, match="these are not parts of one result"):
        parts[0] + parts[1]


OWN = {"negation": ("not", "no"), "greeting": ("Hello",)}


def kinds_of(tokenizer: PreTrainedTokenizerBase, text: str, own: dict[str, tuple[str, ...]] | None = None) -> list[str]:
    told = Kinds(tokenizer, -1, own)
    ids = torch.tensor([tokenizer(text)["input_ids"]])
    _, named = told.of(ids, torch.ones_like(ids, dtype=torch.bool))
    return [told.names[number] for number in named[0].tolist()]


def test_kinds_of_the_users_own_take_their_tokens_and_no_others(tokenizer: PreTrainedTokenizerBase) -> None:
    text = "Hello , it is NOT good , no knot ."
    assert tokenizer.tokenize(text)[-3:] == ["no", "knot", "."]
    plain, own = kinds_of(tokenizer, text), kinds_of(tokenizer, text, OWN)
    changed = {
        token: kind
        for token, kind, before in zip(tokenizer.tokenize(text), own[1:-1], plain[1:-1], strict=True)
        if kind != before
    }
    assert changed == {"hello": "greeting", "not": "negation", "no": "negation"}
    assert (own[0], own[-1], own[2], own[-2]) == ("cls", "sep", "punctuation", "punctuation")


def test_a_piece_in_the_midst_of_a_word_is_not_the_word(tokenizer: PreTrainedTokenizerBase) -> None:
    text = "zzno zznot"
    assert [token for token in tokenizer.tokenize(text) if token in ("##no", "##not")]
    assert "negation" not in kinds_of(tokenizer, text, OWN)


def test_own_kinds_may_be_punctuation_but_never_special_tokens(tokenizer: PreTrainedTokenizerBase) -> None:
    own = {"stops": (".", "[CLS]", "[SEP]")}
    assert kinds_of(tokenizer, "no . yes ,", own) == ["cls", "other", "stops", "other", "punctuation", "sep"]


@pytest.mark.parametrize("name", ["norms", "heads", "mixing", "norms.cancel_out"])
def test_own_kinds_are_in_the_tables_by_name_and_what_they_take_is_taken_from_the_rest(
    name: str, minilm64: LoadedModel, few: Corpus
) -> None:
    measured = [name.partition(".")[0]]
    plain = measure(minilm64, few, measured)[name]
    own = measure(minilm64, few, measured, Options(kinds={"negation": ("not", "no")}))[name]
    assert {*own["kind"]} - {*plain["kind"]} == {"negation"}
    assert {*plain["kind"]} <= {*own["kind"]}
    keys = [column for column in ("layer", "head", "what", "method", "kind") if column in own]
    before, after = cells(plain, *keys), cells(own, *keys)
    column = {"norms": "value", "heads": "value"}.get(name, "n")
    for key, row in before.items():
        if key[-1] == "other" and (name != "heads" or "kind" in key):
            moved = after[(*key[:-1], "negation")][column]
            assert after[key][column] + moved == pytest.approx(row[column], abs=1e-9)
            assert moved > 0
        elif key[-1] != "all":
            assert after[key][column] == pytest.approx(row[column], abs=1e-9)


def test_what_is_left_is_told_of_all_tokens_whatever_the_kinds(minilm64: LoadedModel, few: Corpus) -> None:
    plain, own = (
        measure(minilm64, few, ["mixing:tokens=all"], Options(kinds=kinds))["mixing:tokens=all"]
        for kinds in ({}, {"negation": ("not", "no")})
    )
    plain, own = (frame[frame["kind"] == "all"]["value"].to_numpy(float) for frame in (plain, own))
    np.testing.assert_allclose(plain, own, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [*KINDS, "all"])
def test_a_name_that_is_taken_is_refused(name: str, pure: LoadedModel) -> None:
    with pytest.raises(MeasureError, match=f"'{name}' is a kind of token already; give yours another name"):
        measure(pure, [Example("no soup")], ["heads"], Options(kinds={name: ("no",)}))


def test_a_word_of_two_kinds_and_words_in_one_text_are_refused(pure: LoadedModel) -> None:
    with pytest.raises(MeasureError, match="'no' is of two kinds of token; leave it in one"):
        measure(pure, [Example("no soup")], ["heads"], Options(kinds={"a": ("not", "No"), "b": ("no", "NO")}))
    with pytest.raises(MeasureError, match="the words of the kind 'a' are one text; give a list of words"):
        measure(pure, [Example("no soup")], ["heads"], Options(kinds={"a": "not no"}))


def test_results_of_other_kinds_do_not_merge(pure: LoadedModel) -> None:
    examples = [Example("no soup"), Example("we loved the bread")]
    one = measure(pure, examples, ["heads"], Options(shard=(1, 2)))
    for kinds in ({"negation": ("no",)}, {"denial": ("not",)}):
        other = measure(pure, examples, ["heads"], Options(shard=(2, 2), kinds=kinds))
        with pytest.raises(OutputError, match="these are not parts of one result"):
            one + other


def test_shards_with_own_kinds_merge_and_are_read_again_by_name(pure: LoadedModel, few: Corpus, tmp_path: Path) -> None:
    kinds = {"negation": ("not", "no")}
    whole = measure(pure, few, ["norms", "heads", "mixing"], Options(kinds=kinds))
    parts = [
        measure(pure, few, ["norms", "heads", "mixing"], Options(kinds=kinds, shard=(n, 3)), tmp_path / str(n)) for n in (1, 2, 3)
    ]
    merged = parts[0] + parts[1] + parts[2]
    for name, frame in whole.tables.items():
        assert list(frame.get("kind", [])) == list(merged[name].get("kind", []))
        np.testing.assert_allclose(frame["value"].to_numpy(float), merged[name]["value"].to_numpy(float), atol=1e-9)
    assert "negation" in (tmp_path / "1" / "norms.csv").read_text(encoding="utf-8")


def test_the_command_line_takes_kinds_and_frequencies(
    pure: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pure.module.save_pretrained(tmp_path / "model")
    pure.tokenizer.save_pretrained(tmp_path / "model")
    corpus, ranks = tmp_path / "texts.csv", tmp_path / "counts.jsonl"
    corpus.write_text("text\n" + "".join(f'"{text}"\n' for text in TEXTS), encoding="utf-8")
    ranks.write_text("".join(json.dumps({"token": token, "count": 9}) + "\n" for token in ("the", "soup")), encoding="utf-8")
    plain = ["measure", str(tmp_path / "model"), str(corpus), "-m", "heads", "-m", "frequency"]
    arguments = [*plain, "--kind", "negation=not no", "--kind", "food=soup bread"]
    assert main([*arguments, "--frequencies", str(ranks), "-o", str(tmp_path / "out"), "--tables"]) == 0
    printed = capsys.readouterr().out
    assert "negation" in printed
    assert "food" in printed
    assert "file" in printed
    provenance = json.loads((tmp_path / "out" / "provenance.json").read_text(encoding="utf-8"))
    assert provenance["options"]["kinds"] == {"negation": ["not", "no"], "food": ["soup", "bread"]}
    for given, message in (
        (["--kind", "sep=not"], "'sep' is a kind of token already"),
        (["--frequencies", str(tmp_path / "nosuch.csv")], "no file"),
    ):
        assert main([*plain, *given]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    with pytest.raises(SystemExit):
        main([*plain, "--kind", "negation"])
    assert "'negation' is not NAME=WORDS, such as negation='not no never'" in capsys.readouterr().err


def test_kinds_are_known_to_a_batcher_of_any_tokenizer(minilm_folder: Path) -> None:
    loaded = load_model(minilm_folder)
    batch = loaded.batcher(Corpus.of((), ""), annotations=TokenAnnotations({"negation": ("not",)})).batch(
        [Example("It is not good, not at all")]
    )
    assert batch.kinds == (*KINDS, "negation")
    assert int((batch.named == len(KINDS)).sum()) == 2
    assert int((batch.kind == len(KINDS)).sum()) == 0
