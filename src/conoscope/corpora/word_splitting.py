"""Word splitting: the lower-cased words, punctuation marks and <tags> of a text."""

from collections import Counter
from collections.abc import Iterable

from tokenizers import Regex, normalizers, pre_tokenizers

NORMALIZER = normalizers.Sequence([normalizers.NFC(), normalizers.Replace("’", "'"), normalizers.Lowercase()])
CLITIC = r"'(?:s|m|d|re|ve|ll)\b"
TOKEN = rf"</?\w+ ?/?>|\w+(?=n't\b)|n't\b|{CLITIC}|\w+(?:(?!{CLITIC})'\w+)?|[^\w\s]"
"""<tags> such as <user> or <br />; words, with 's, n't and similar split off as in GloVe; punctuation marks."""
WORDS = pre_tokenizers.Split(Regex(TOKEN), behavior="removed", invert=True)


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each lower-cased word, punctuation mark and <tag> occurs."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in WORDS.pre_tokenize_str(NORMALIZER.normalize_str(text)))
    return counts
