"""Posts labelled normal, hate speech or offensive, with the decisive words (Mathew et al. 2021)."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conoscope.common.errors import CorpusError
from conoscope.common.textfiles import whole
from conoscope.corpora.base import Corpus, Example, Notes
from conoscope.corpora.entry import CorpusRequest, Entry
from conoscope.corpora.rationales import fitted

LABELS = ("normal", "hatespeech", "offensive")
POSTS, DIVISIONS = "dataset.json", "post_id_divisions.json"
NAMES = {"train": "train", "validation": "val", "test": "test"}


def _load(request: CorpusRequest) -> Corpus:
    folder = request.folder()
    for name in (POSTS, DIVISIONS):
        if not (folder / name).is_file():
            raise CorpusError(f"{folder} has no {name}; conoscope fetch hatexplain")

    def read(notes: Notes) -> Iterator[Example]:
        """Holds both files in memory; yields the posts in the order of their split."""
        posts, divisions = _object(folder / POSTS, notes), _object(folder / DIVISIONS, notes)
        chosen = divisions.get(NAMES[request.split])
        if not all(isinstance(ids, list) and all(isinstance(name, str) for name in ids) for ids in (*divisions.values(), chosen)):
            raise CorpusError(f"{folder / DIVISIONS}: expected a list of post ids for train, val and test; fetch it again")
        nowhere = posts.keys() - {name for ids in divisions.values() for name in ids}
        undecided = sum(_is_undecided(posts[name]) for name in nowhere)
        notes["posts without a majority, left out"] += undecided
        notes["posts in no split, left out"] += len(nowhere) - undecided
        earlier = {name for split in _before(request.split) for name in divisions.get(NAMES[split], ())}
        notes["posts of an earlier split, left out"] += len(earlier & set(chosen or ()))
        for name in dict.fromkeys(name for name in chosen or () if name not in earlier):
            yield from _example(name, posts.get(name), request["unmarked"], notes, f"{folder / POSTS}: post {name!r}")

    files = (folder / POSTS, folder / DIVISIONS)
    return Corpus("hatexplain", request.split, LABELS, read, None, None, request.fingerprint(*files), request.given)


def _object(path: Path, notes: Notes) -> dict[str, Any]:
    try:
        found = json.loads(whole(path, notes))
    except json.JSONDecodeError as error:
        raise CorpusError(f"{path}:{error.lineno}: not JSON ({error.msg}); fetch it again") from error
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{path}: not JSON ({error}); fetch it again") from error
    if not isinstance(found, dict):
        raise CorpusError(f"{path}:1: a {type(found).__name__} where an object is expected; fetch it again")
    return found


def _before(split: str) -> list[str]:
    return list(NAMES)[: list(NAMES).index(split)]


def _majority(post: Any) -> str | None:
    """The label of more than half of the annotators; None without a majority."""
    labels = Counter(str(annotator["label"]) for annotator in post["annotators"])
    return next((label for label, votes in labels.items() if 2 * votes > labels.total()), None)


def _is_undecided(post: Any) -> bool:
    """Whether a post that is in no split lacks a majority, or labels."""
    try:
        return _majority(post) is None
    except (KeyError, TypeError):
        return True


def _example(name: str, post: Any, unmarked: str, notes: Notes, where: str) -> Iterator[Example]:
    """The post as an example; nothing if it has no majority or no words."""
    try:
        label = _majority(post)
        tokens = [str(token).encode("utf-8", "replace").decode() for token in post["post_tokens"]]
        marked = [[bool(int(flag)) for flag in row] for row in post["rationales"]]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CorpusError(f"{where} lacks annotators, rationales or post_tokens ({error!r}); fetch the file again") from error
    if label is None:
        notes["posts without a majority, left out"] += 1
    elif not any(token.strip() for token in tokens):
        notes["posts without words, left out"] += 1
    elif label not in LABELS:
        raise CorpusError(f"{where} has the label {label!r}: expected one of {', '.join(LABELS)}; fetch the file again")
    else:
        flags = None if label == "normal" else _decisive([fitted(row, len(tokens), False, notes) for row in marked])
        if label != "normal" and flags is None:
            notes["toxic posts in which nothing is marked"] += 1
            label = "normal" if unmarked == "normal" else label
        of_words = None if flags is None else tuple(f for t, f in zip(tokens, flags, strict=True) for _ in t.split())
        yield Example(" ".join(tokens), label, None, of_words, name)


def _decisive(marked: list[list[bool]]) -> list[bool] | None:
    """The words that at least half of the annotators marked; if there are none, those of the first annotator who marked any."""
    half = [2 * sum(votes) >= len(votes) for votes in zip(*marked, strict=True)]
    return next((flags for flags in (half, *marked) if any(flags)), None)


ENTRY = Entry(
    "posts that are normal, hate speech or offensive, with rationales; the texts are offensive",
    _load,
    origin="Mathew et al. 2021, HateXplain; MIT",
    choices={"unmarked": ("kept", "normal")},
    offensive=True,
)
