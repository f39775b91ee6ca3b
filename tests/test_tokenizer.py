"""The word-level tokenizer: what is a word, and that it survives being saved."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from conoscope.corpora.word_splitting import count_words
from conoscope.models.tokenizer import build_tokenizer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The man's dog doesn't bark.", "the|man|'s|dog|does|n't|bark|."),
        ("Can’t they’ve come? We'll see.", "ca|n't|they|'ve|come|?|we|'ll|see|."),
        ("At five o'clock, O'Brien's", "at|five|o'clock|,|o'brien|'s"),
        ("<user> wrote<br /><br />in <B>bold</B>", "<user>|wrote|<br />|<br />|in|<b>|bold|</b>"),
        ("a<b and c>d", "a|<|b|and|c|>|d"),
        ("Cafe\u0301 杜甫 3.5", "café|杜甫|3|.|5"),
    ],
)
def test_words_clitics_tags_and_marks(text: str, words: str) -> None:
    assert list(count_words([text]).elements()) == sorted(words.split("|"), key=words.split("|").index)


def test_a_saved_tokenizer_cuts_the_same_words(tmp_path: Path) -> None:
    texts = ["The man's dog doesn't bark<br />.", "Nor does o'clock"]
    built = build_tokenizer(texts)
    built.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in texts:
        tokens = loaded.convert_ids_to_tokens(loaded(text)["input_ids"])
        assert tokens == built.convert_ids_to_tokens(built(text)["input_ids"])
        assert "<unk>" not in tokens
    assert "n't" in loaded.get_vocab()


def test_the_tokenizer_lowers_splits_punctuation_and_knows_its_most_frequent_words_first() -> None:
    tokenizer = build_tokenizer(["The soup wasn't hot.", "the SOUP, the bread"])
    assert tokenizer.tokenize("The bread wasn't soup!") == ["the", "bread", "was", "n't", "soup", "<unk>"]
    assert tokenizer.convert_ids_to_tokens(list(range(6))) == ["<pad>", "<unk>", "<cls>", "<sep>", "the", "soup"]
    assert tokenizer.decode(tokenizer("soup", "bread")["input_ids"]) == "<cls> soup <sep> bread"
