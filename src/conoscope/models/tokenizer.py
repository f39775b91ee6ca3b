"""A word-level tokenizer built from the words of a corpus."""

from collections.abc import Iterable

from tokenizers import Tokenizer, models, processors
from transformers import PreTrainedTokenizerFast

from conoscope.corpora.word_splitting import NORMALIZER, WORDS, count_words

PAD, UNKNOWN, CLS, SEPARATOR = SPECIAL = ("<pad>", "<unk>", "<cls>", "<sep>")


def build_tokenizer(texts: Iterable[str], classifying: bool = True) -> PreTrainedTokenizerFast:
    """A tokenizer of lower-cased words and punctuation marks, most frequent first; <cls> if `classifying`; <sep> in pairs."""
    tokenizer = Tokenizer(models.WordLevel({}, unk_token=UNKNOWN))
    tokenizer.normalizer, tokenizer.pre_tokenizer = NORMALIZER, WORDS
    counts = count_words(texts)
    ranked = sorted((word for word in counts if word not in SPECIAL), key=lambda word: (-counts[word], word))
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *ranked))}
    tokenizer.model = models.WordLevel(vocabulary, unk_token=UNKNOWN)
    before = f"{CLS} " if classifying else ""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{before}$A",
        pair=f"{before}$A {SEPARATOR} $B",
        special_tokens=[(mark, vocabulary[mark]) for mark in (CLS, SEPARATOR)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        cls_token=CLS if classifying else None,
        sep_token=SEPARATOR,
        model_input_names=["input_ids", "attention_mask"],
    )
