"""Order: models come first and texts last; what is given the other way round is refused in one line."""

import os
from collections.abc import Mapping
from pathlib import Path

from conoscope.capture.loading import is_model
from conoscope.common.errors import ModelError
from conoscope.common.textfiles import is_there
from conoscope.corpora import Corpus, Example, names_texts


def refuse_swapped(verb: str, model: object, texts: object) -> None:
    """ModelError if the model can only be texts, or the texts are a tokenizer; it says what to type instead."""
    if hasattr(texts, "convert_ids_to_tokens"):
        raise ModelError(f"a tokenizer stands where texts are expected; give the model as (model, tokenizer): "
                         f"{verb}((model, tokenizer), texts)")  # fmt: skip
    if _is_texts(model):
        raise ModelError(f"texts stand where a model is expected; models come first, texts last: {verb}(model, texts)")


def _is_texts(given: object) -> bool:
    """Whether a value can only be texts."""
    if is_model(given):
        return False
    if isinstance(given, str | os.PathLike):
        name = os.fspath(given)
        return isinstance(name, str) and names_texts(name) and not is_there(Path(name), folder=True)
    if isinstance(given, list | tuple):
        whole = all(isinstance(part, str | Example | Mapping | tuple | list) for part in given)
        return bool(given) and (whole if len(given) != 2 else whole and not _may_be_path(given[0], given[1]))
    return isinstance(given, Corpus | Example | Mapping) or hasattr(given, "iloc") or hasattr(given, "column_names")


def _may_be_path(model: object, tokenizer: object) -> bool:
    """Whether two strings may be meant as a folder and a tokenizer: neither has white space."""
    return all(isinstance(part, str) and not any(map(str.isspace, part)) for part in (model, tokenizer))
