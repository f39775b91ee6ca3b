"""A copy of a checkpoint with added words."""

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from conoscope.capture.loading import load_model, load_tokenizer
from conoscope.corpora import Corpus, Example
from conoscope.studies.added_words import with_added_words
from conoscope.training.new_head import load_for_training

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "c", "##a", "##c", "soup", "good")
KMERS = Corpus.of([Example("aaca caca", "x"), Example("caca acac", "y")])
UNKNOWN = 1


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A tiny BERT with a vocabulary of few pieces, in a folder."""
    folder = tmp_path / "bert"
    config = BertConfig(vocab_size=len(PIECES), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(PIECES), encoding="utf-8")
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return str(folder)


def test_words_of_the_corpus_get_rows_of_their_own_and_the_others_stay(checkpoint: str, tmp_path: Path) -> None:
    assert with_added_words(checkpoint, KMERS, str(tmp_path / "more")) == 3
    before, after = (
        load_model(where, device="cpu").module.get_input_embeddings().weight for where in (checkpoint, tmp_path / "more")
    )
    assert len(after) == len(PIECES) + 3
    assert torch.equal(after[: len(PIECES)], before)
    assert 0.005 < float(after[len(PIECES) :].detach().std()) < 0.05
    ids = load_tokenizer(str(tmp_path / "more"))("aaca caca acac")["input_ids"]
    assert len(ids) == 5
    assert sorted(ids[1:-1]) == [len(PIECES), len(PIECES) + 1, len(PIECES) + 2]


def test_a_k_mer_that_was_not_seen_is_one_unknown_word(checkpoint: str, tmp_path: Path) -> None:
    assert len(load_tokenizer(checkpoint)("cccc")["input_ids"]) == 6
    with_added_words(checkpoint, KMERS, str(tmp_path / "more"))
    module, tokenizer = load_for_training(str(tmp_path / "more"), KMERS.labels)
    assert tokenizer("aaca cccc caca")["input_ids"][2] == UNKNOWN
    assert len(tokenizer("aaca cccc caca")["input_ids"]) == 5
    assert (tokenizer.pad_token, tokenizer.cls_token) == ("[PAD]", "[CLS]")
    assert module.config.num_labels == 2


def test_words_of_any_length_leave_pieces_as_they_are(checkpoint: str, tmp_path: Path) -> None:
    assert with_added_words(checkpoint, Corpus.of([Example("good soup cac", "x")]), str(tmp_path / "more")) == 1
    tokenizer = load_tokenizer(str(tmp_path / "more"))
    assert tokenizer.tokenize("cac cca ccac soup") == ["cac", "c", "##c", "##a", "c", "##c", "##a", "##c", "soup"]


def test_new_rows_follow_the_seed(checkpoint: str, tmp_path: Path) -> None:
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        with_added_words(checkpoint, KMERS, str(tmp_path / name), seed)
    one, same, other = (
        load_model(tmp_path / name, device="cpu").module.get_input_embeddings().weight for name in ("one", "same", "other")
    )
    assert torch.equal(one, same)
    assert not torch.equal(one[len(PIECES) :], other[len(PIECES) :])
