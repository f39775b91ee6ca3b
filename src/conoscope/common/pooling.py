"""Pooling: which vector represents a text, what a model's files say about it, and how a page describes it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from conoscope.common.errors import MeasureError, one_of

Vector = Literal["first", "last", "mean", "cls"]
POOLS: dict[str, Vector] = {"first": "first", "last": "last", "mean": "mean"}
"""The poolings that a user can choose."""
MODES: dict[str, Vector] = {"cls": "first", "mean": "mean", "lasttoken": "last"}
"""The supported poolings of sentence-transformers, as our vectors."""
FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The poolings in older sentence-transformers files: a flag for each."""
CLASSIFIER, ASKED, DEFAULT = "the classifier", "--pool", "default of a model without classifier"
"""Where the choice of the vector can come from, besides a file."""


@dataclass(frozen=True)
class Pool:
    """The vector of a text that is analysed: `first`, `last`, `mean`, or `cls`, the classifying token of the batch.

    `by` says where the choice comes from. `token` is the text of the first or the classifying token, if it is a special one.
    `note` says why a file of the model was ignored.
    """

    vector: Vector
    by: str
    token: str | None = None
    note: str | None = None

    @property
    def instead(self) -> Vector | None:
        """The vector that replaces the classifier's own; None if the classifier's own is used."""
        return None if self.by == CLASSIFIER else self.vector

    def provenance(self) -> dict[str, str]:
        """The fields for provenance.json, without those that are None."""
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Declared:
    """The pooling that a model's files declare: the names of its modes, and the file; `vector` is None if unsupported."""

    modes: tuple[str, ...]
    file: str

    @property
    def vector(self) -> Vector | None:
        """The matching vector; None for several modes at once, and for modes that conoscope does not support."""
        return MODES.get(self.modes[0]) if len(self.modes) == 1 else None


def chosen_pool(name: str | None) -> Vector | None:
    """The vector that `--pool` or `Options.pool` names; MeasureError for an unknown name."""
    if name is not None and (not isinstance(name, str) or name not in POOLS):
        raise MeasureError(f"no pool {name!r}; known: {one_of(POOLS)}")
    return None if name is None else POOLS[name]


def declared_pooling(source: str) -> Declared | None:
    """The pooling that sentence-transformers' files beside a model declare; None if none can be read.

    `source` is a folder or a Hub id; for a Hub id the cache is read first, as for the model itself.
    """
    if not source:
        return None
    for folder in _pooling_folders(source):
        file = f"{folder}/config.json"
        if modes := _modes(_read_json(source, file)):
            return Declared(modes, file)
    return None


def _pooling_folders(source: str) -> Iterator[str]:
    """The folders that modules.json names for the pooling, or else the usual one."""
    modules = _read_json(source, "modules.json")
    if not isinstance(modules, list):
        yield "1_Pooling"
        return
    for module in modules:
        path, kind = (module.get("path"), module.get("type")) if isinstance(module, Mapping) else (None, None)
        if isinstance(path, str) and isinstance(kind, str) and kind.rpartition(".")[2] == "Pooling" and _inside(path):
            yield path


def _inside(path: str) -> bool:
    """Whether a path from a third-party file stays inside the model's folder."""
    parts = PurePosixPath(path).parts
    return bool(parts) and ".." not in parts and "\\" not in path and ":" not in path and not path.startswith("/")


def _modes(config: Any) -> tuple[str, ...]:
    """The pooling modes in a configuration, in its newer form (`pooling_mode`) or the older one."""
    if not isinstance(config, Mapping):
        return ()
    named = config.get("pooling_mode")
    if isinstance(named, str):
        return tuple(named.lower().split("+"))
    if isinstance(named, list) and named and all(isinstance(name, str) for name in named):
        return tuple(name.lower() for name in named)
    # If its flag is missing the mean is on, as in sentence-transformers.
    flags = {"pooling_mode_mean_tokens": True, **config}
    return tuple(mode for flag, mode in FLAGS.items() if flags.get(flag) is True)


def _read_json(source: str, file: str) -> Any:
    try:
        path = Path(source) / file if Path(source).is_dir() else _from_hub(source, file)
        return None if path is None else json.loads(path.read_text(encoding="utf-8"))
    except Exception:  # third-party files and the Hub can fail in any way; the model is loaded already
        return None


def _from_hub(name: str, file: str) -> Path | None:
    """A file of a Hub model, from the cache if the cache has it; None if it does not exist."""
    from huggingface_hub import file_exists, hf_hub_download, try_to_load_from_cache

    path = try_to_load_from_cache(name, file)
    # `file_exists` first, because a download that cannot reach the Hub retries for half a minute.
    if path is None and file_exists(name, file):
        path = hf_hub_download(name, file)
    return Path(path) if isinstance(path, str) else None


def is_classifiers(provenance: Mapping[str, Any]) -> bool:
    """Whether the analysed vector is the one that the model's classifier reads."""
    pool = _recorded(provenance)
    return bool(provenance.get("model", {}).get("labels")) and (pool is None or pool["by"] == CLASSIFIER)


def described(provenance: Mapping[str, Any]) -> str:
    """A phrase for the analysed vector, such as "the mean of the token vectors" or "what the classifier reads ([CLS])"."""
    pool, classifiers = _recorded(provenance), is_classifiers(provenance)
    if pool is None:
        return "what the classifier reads" if classifiers else "the vector that stands for a text"
    return f"what the classifier reads ({pool.get('token') or _phrase(pool)})" if classifiers else _phrase(pool)


def vector_read(provenance: Mapping[str, Any]) -> str | None:
    """The analysed vector, whoever chose it: the same for what a classifier reads at [CLS] and for a first token [CLS]; None if
    the results do not record it."""
    pool = _recorded(provenance)
    return None if pool is None else pool.get("token") or _phrase(pool)


def _phrase(pool: Mapping[str, str]) -> str:
    token = pool.get("token")
    # Decoders classify from the last token, which has no name of its own.
    return {
        "first": f"the first token, {token}" if token else "the first token",
        "last": "the last token",
        "mean": "the mean of the token vectors",
        "cls": f"the token {token}" if token else "the last token",
    }[pool["vector"]]


def sourced(provenance: Mapping[str, Any]) -> str | None:
    """The phrase with the source of the choice, such as "the mean of the token vectors (1_Pooling/config.json)"; None if the
    results do not record it."""
    pool = _recorded(provenance)
    if pool is None:
        return None
    return described(provenance) if is_classifiers(provenance) else f"{described(provenance)} ({pool['by']})"


def pool_identity(provenance: Mapping[str, Any]) -> str | None:
    """The pooling that all parts of one result must share: the classifier's own, or the vector's name; None if not recorded."""
    pool = _recorded(provenance)
    return CLASSIFIER if is_classifiers(provenance) else None if pool is None else pool["vector"]


def _recorded(provenance: Mapping[str, Any]) -> Mapping[str, str] | None:
    """The pooling that provenance.json records; None in folders of earlier versions, and if the record is invalid."""
    pool = provenance.get("pool")
    known = isinstance(pool, Mapping) and pool.get("vector") in get_args(Vector) and isinstance(pool.get("by"), str)
    return pool if known else None
