"""Added words: a copy of a checkpoint with words of some texts added to its own, as Bonino et al. add k-mers to those of BERT."""

from collections.abc import Iterable

from tokenizers import AddedToken
from transformers import AutoModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast, set_seed

from conoscope.capture.pretrained import load_tokenizer
from conoscope.common.errors import ModelError
from conoscope.corpora import Corpus
from conoscope.corpora.word_splitting import count_words
from conoscope.training.encoding import texts_of

MARKS = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def with_added_words(checkpoint: str, corpus: Corpus, folder: str, seed: int = 0) -> int:
    """Save the copy to a folder, without a head, and return the number of added words.

    The vectors of added words are random, as those of the checkpoint were before its training, and follow the seed. Where all
    words of the corpus are equally long, as k-mers are, others of that length are unknown words, and not cut into pieces.
    """
    words = count_words(text for example in corpus for text in texts_of(example))
    model, tokenizer = AutoModel.from_pretrained(checkpoint), load_tokenizer(checkpoint)
    before = model.get_input_embeddings().num_embeddings
    new = sorted(words.keys() - tokenizer.get_vocab().keys())
    # Otherwise a word would also be cut out of longer ones.
    added = tokenizer.add_tokens([AddedToken(word, single_word=True) for word in new])
    set_seed(seed)
    # By default the new rows would be drawn around the mean of the old ones.
    model.resize_token_embeddings(max(len(tokenizer), before), mean_resizing=False)
    model.save_pretrained(folder)
    _saved(tokenizer, words, checkpoint).save_pretrained(folder)
    return int(added)


def _saved(tokenizer: PreTrainedTokenizerBase, words: Iterable[str], checkpoint: str) -> PreTrainedTokenizerBase:
    """The tokenizer as it is to be saved: BERT's own class would forget how long a word may be that is cut into pieces."""
    lengths = {len(word) for word in words}
    if len(lengths) > 1:
        return tokenizer
    pieces = tokenizer.backend_tokenizer
    if not hasattr(pieces.model, "max_input_chars_per_word"):
        raise ModelError(f"{checkpoint} has no word pieces, and would cut unknown words in its own way; give a BERT")
    pieces.model.max_input_chars_per_word = min(lengths) - 1
    marks = {mark: getattr(tokenizer, mark) for mark in MARKS}
    names = tokenizer.model_input_names
    return PreTrainedTokenizerFast(
        tokenizer_object=pieces, model_input_names=names, model_max_length=tokenizer.model_max_length, **marks
    )
