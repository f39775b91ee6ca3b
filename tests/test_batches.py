"""What a batch knows of its tokens: kinds, words, padding, the classifying token."""

import itertools

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from conoscope.capture.batch import Batch
from conoscope.capture.batcher import Batcher
from conoscope.capture.class_token import Reading
from conoscope.capture.loading import LoadedModel
from conoscope.common.errors import CorpusError, ModelError
from conoscope.common.vocabulary import KINDS
from conoscope.corpora import Corpus, Example
from conoscope.models.tokenizer import build_tokenizer

LAST = Reading("last")


@pytest.fixture
def batcher(minilm: LoadedModel) -> Batcher:
    return minilm.batcher(Corpus.of([Example("x")]))


def byte_level() -> PreTrainedTokenizerFast:
    """A tokenizer of GPT-2's kind: bytes, no [CLS], one token for beginning, end and unknown."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<|endoftext|>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    end = "<|endoftext|>"
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=end, bos_token=end, eos_token=end, pad_token=end)


def test_kinds_tell_special_punctuation_and_other_tokens_apart(batcher: Batcher, minilm: LoadedModel) -> None:
    batch = batcher.batch([Example("The soup, well: $5!"), Example("Hi.")])
    tokens = [minilm.tokenizer.convert_ids_to_tokens(row.tolist()) for row in batch.inputs["input_ids"]]
    kinds = {token: KINDS[kind] for token, kind in zip(tokens[0], batch.kind[0].tolist(), strict=True)}
    assert kinds == {
        "[CLS]": "cls", "the": "other", "soup": "other", ",": "punctuation", "well": "other",
        ":": "punctuation", "$": "punctuation", "5": "other", "!": "punctuation", "[SEP]": "sep",
    }  # fmt: skip
    assert batch.kind[1].tolist() == [0, 4, 3, 1, *[-1] * 6]


def test_subwords_belong_to_their_whitespace_word(batcher: Batcher) -> None:
    """ "unsalty," is cut into several pieces and a comma: all of them are word 1."""
    example = Example("The unsalty, soup")
    words = batcher.batch([example]).word[0].tolist()
    assert words[0] == words[-1] == -1
    assert words[1] == 0
    assert set(words[2:-2]) == {1}
    assert len(words) > 6
    assert words[-2] == 2
    assert len(example.words) == 3


def test_words_of_a_pair_are_numbered_on(batcher: Batcher) -> None:
    words = batcher.batch([Example("two words", pair="and three more")]).word[0].tolist()
    assert words == [-1, 0, 1, -1, 2, 3, 4, -1]


def test_byte_level_tokens_with_a_leading_space_belong_to_the_word_after_it() -> None:
    batch = Batcher(byte_level(), {}, (100, 1000), LAST).batch([Example("ab cd")])
    assert batch.word[0].tolist() == [0, 0, -1, 1, 1]


@pytest.mark.parametrize("text", ["a\u2003b", "  lead and trail  ", "e\u0301te\u0301 chaud", "👩‍🍳 soup", "\u202ertl\u202c x"])
def test_words_count_as_python_splits(batcher: Batcher, text: str) -> None:
    words = batcher.batch([Example(text)]).word[0]
    assert int(words.max()) == len(text.split()) - 1


def test_pads_are_not_real_and_stand_at_the_end_whatever_the_tokenizer_prefers(minilm: LoadedModel) -> None:
    batcher = minilm.batcher(Corpus.of([Example("x")]))
    batcher.tokenizer.padding_side = "left"
    try:
        batch = batcher.batch([Example("a long sentence about soup"), Example("soup")])
    finally:
        batcher.tokenizer.padding_side = "right"
    assert batch.real.tolist() == [[True] * 7, [True] * 3 + [False] * 4]


def test_the_classifying_token_is_where_the_model_reads_or_else_cls(batcher: Batcher) -> None:
    examples = [Example("ab"), Example("abcd")]
    assert batcher.batch(examples).cls.tolist() == [0, 0]
    assert Batcher(byte_level(), {}, (100, 1000), LAST).batch(examples).cls.tolist() == [1, 3]
    assert Batcher(byte_level(), {}, (100, 1000), Reading()).batch(examples).cls.tolist() == [-1, -1]
    known = build_tokenizer(["ab abcd"])
    assert Batcher(known, {}, (100, 1000), Reading()).batch([Example("ab abcd")]).cls.tolist() == [0]
    assert Batcher(known, {}, (100, 1000), LAST).batch([Example("ab abcd")]).cls.tolist() == [2]
    unpadded = Reading("unpadded", pad=int(known.get_vocab()["abcd"]))
    assert Batcher(known, {}, (100, 1000), unpadded).batch([Example("ab abcd"), Example("abcd ab abcd")]).cls.tolist() == [1, 2]


def test_unknown_words_are_not_special_and_not_content() -> None:
    batcher = Batcher(build_tokenizer(["the soup"]), {}, (100, 1000), LAST)
    batch = batcher.batch([Example("the zebra")])
    assert batch.kind[0].tolist() == [0, 4, 4]
    assert batch.unknown[0].tolist() == [False, False, True]
    assert batch.content[0].tolist() == [False, True, False]


def test_texts_beyond_the_longest_input_are_cut_and_counted(minilm: LoadedModel) -> None:
    batcher = minilm.batcher(Corpus.of([Example("x")]), max_length=8)
    batch = batcher.batch([Example("soup " * 50), Example("soup")])
    assert batch.real.sum(-1).tolist() == [8, 3]
    assert batcher.truncated == 1


def test_batches_hold_every_example_once_and_never_mix_pairs_with_texts(batcher: Batcher) -> None:
    examples = list(Corpus.of([Example(f"soup {n}" * (n % 7 + 1), pair="no" if n % 3 else None) for n in range(100)]))
    batches = list(batcher.batches(examples, 8))
    assert sorted(name for batch in batches for name in batch.ids) == sorted(e.id for e in examples)
    assert all(len({examples[int(name.split(":")[1]) - 1].pair for name in batch.ids}) == 1 for batch in batches)


def test_every_example_keeps_its_number_in_the_corpus(batcher: Batcher) -> None:
    examples = list(Corpus.of([Example("a long one about soup"), Example("soup"), Example("cold soup")]))
    found = list(batcher.batches(examples, 2, places=itertools.count(10, 5)))
    numbers = {name: place for batch in found for name, place in zip(batch.ids, batch.place.tolist(), strict=True)}
    assert numbers == {"examples:1": 10, "examples:2": 15, "examples:3": 20}


def test_ranks_of_tokens_do_not_depend_on_the_padding(batcher: Batcher) -> None:
    short, long = Example("soup", id="a"), Example("a long one about soup", id="b")
    alone, together = batcher.batch([short]), batcher.batch([long, short])
    assert alone.token_ranks[0].tolist() == together.token_ranks[1, : alone.real.shape[1]].tolist()
    assert len(set(together.token_ranks[together.real].tolist())) == int(together.real.sum())
    left = Batch.of_ids(torch.ones(1, 4).long(), torch.tensor([[False, False, True, True]]))
    right = Batch.of_ids(torch.ones(1, 4).long(), torch.tensor([[True, True, False, False]]))
    assert left.token_ranks[left.real].tolist() == right.token_ranks[right.real].tolist()


def test_an_input_too_short_for_a_word_is_refused(minilm: LoadedModel) -> None:
    with pytest.raises(ModelError, match="an input of 2 tokens has no room for a word; give --max-length 3 or more"):
        minilm.batcher(Corpus.of([Example("x")]), max_length=2).batch([Example("soup")])


def test_a_tokenizer_that_belongs_to_another_model_is_refused() -> None:
    with pytest.raises(
        ModelError, match="the tokenizer gives the id 5 to a model that knows 5 tokens; they do not belong together"
    ):
        Batcher(build_tokenizer(["the soup"]), {}, (100, 5), LAST).batch([Example("the soup")])


def test_a_text_without_a_token_is_refused_by_name() -> None:
    with pytest.raises(CorpusError, match="b: the text '' gives no token; take it out"):
        Batcher(byte_level(), {}, (100, 1000), LAST).batch([Example("a", id="a"), Example("", id="b")])


def test_padded_batches_are_as_wide_as_a_multiple_of_the_step(batcher: Batcher) -> None:
    texts = [Example("good " * words) for words in (3, 9, 20)]
    batcher.step = 16
    wide, even = batcher.batch(texts), batcher.batch(texts[1:2] * 2)
    assert wide.real.shape[1] == 32
    assert wide.real.sum(-1).tolist() == [5, 11, 22]
    assert {x.shape for x in (*wide.inputs.values(), wide.real, wide.kind, wide.word)} == {(3, 32)}
    assert even.real.shape[1] == 11, "nothing is padded"
    longest = batcher.batch([Example("good " * 600), Example("short")])
    assert longest.real.shape[1] == batcher.max_length, "no wider than the model reads"


def test_a_batch_that_chooses_its_padding_token_is_no_wider_than_it_must_be() -> None:
    """Another token in each batch: no two of them run the same."""
    own = Batcher(byte_level(), {}, (64, 257), Reading("last", side="right", pad=None))
    own.step = 16
    assert own.batch([Example("abc"), Example("abcde")]).real.shape[1] == 5
