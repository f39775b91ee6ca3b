"""Pooling: which vector stands for a text, what a model's files say of it, and the words for it on a page."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from conoscope.common.errors import MeasureError, one_of

Vector = Literal["first", "last", "mean", "cls"]
POOLS: dict[str, Vector] = {"first": "first", "last": "last", "mean": "mean"}
"""What a user may choose."""
MODES: dict[str, Vector] = {"cls": "first", "mean": "mean", "lasttoken": "last"}
"""The poolings of sentence-transformers that are supported, as vectors of ours."""
FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The same in its older files: a flag for each pooling."""
CLASSIFIER, ASKED, DEFAULT = "the classifier", "--pool", "default of a model without classifier"
"""Who may say which vector it is, beside a file."""


@dataclass(frozen=True)
class Pool:
    """Which vector of a text is analysed: `first`, `last`, `mean`, or `cls`, the classifying token of the batch.

    `by` says where that was read. `token` is how the first or the classifying token is spelled, where it is a special one.
    `note` says why a file of the model was not followed.
    """

    vector: Vector
    by: str
    token: str | None = None
    note: str | None = None

    @property
    def instead(self) -> Vector | None:
        """The vector that is read instead of the classifier's own; None where that is the one."""
        return None if self.by == CLASSIFIER else self.vector

    def provenance(self) -> dict[str, str]:
        """What is written into provenance.json: the parts that are known."""
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Declared:
    """What a model's files say: the names of the poolings, and in which file; `vector` is None where that is not supported."""

    modes: tuple[str, ...]
    file: str

    @property
    def vector(self) -> Vector | None:
        """The vector that they mean; None for several poolings at once, and for those that conoscope does not have."""
        return MODES.get(self.modes[0]) if len(self.modes) == 1 else None


def chosen_pool(name: str | None) -> Vector | None:
    """What `--pool` or `Options.pool` asks for; refuses a name that is not known."""
    if name is not None and (not isinstance(name, str) or name not in POOLS):
        raise MeasureError(f"no pool {name!r}; known: {one_of(POOLS)}")
    return None if name is None else POOLS[name]


def declared_pooling(source: str) -> Declared | None:
    """What sentence-transformers' files beside a model say of its pooling; None where there are none that can be read.

    `source` is a folder or a Hub id; of the latter the cache is read first, as for the model itself.
    """
    if not source:
        return None
    for folder in _pooling_folders(source):
        file = f"{folder}/config.json"
        if modes := _modes(_read_json(source, file)):
            return Declared(modes, file)
    return None


def _pooling_folders(source: str) -> Iterator[str]:
    """Where modules.json says that the pooling is described, or else where it usually is."""
    modules = _read_json(source, "modules.json")
    if not isinstance(modules, list):
        yield "1_Pooling"
        return
    for module in modules:
        path, kind = (module.get("path"), module.get("type")) if isinstance(module, Mapping) else (None, None)
        if isinstance(path, str) and isinstance(kind, str) and kind.rpartition(".")[2] == "Pooling" and _inside(path):
            yield path


def _inside(path: str) -> bool:
    """Whether a path of a file that we did not write stays in the model's folder."""
    parts = PurePosixPath(path).parts
    return bool(parts) and ".." not in parts and "\\" not in path and ":" not in path and not path.startswith("/")


def _modes(config: Any) -> tuple[str, ...]:
    """The names of the poolings of a configuration, in its newer form (`pooling_mode`) or the older one."""
    if not isinstance(config, Mapping):
        return ()
    named = config.get("pooling_mode")
    if isinstance(named, str):
        return tuple(named.lower().split("+"))
    if isinstance(named, list) and named and all(isinstance(name, str) for name in named):
        return tuple(name.lower() for name in named)
    # Without a flag of its own the mean is on, as sentence-transformers reads it.
    flags = {"pooling_mode_mean_tokens": True, **config}
    return tuple(mode for flag, mode in FLAGS.items() if flags.get(flag) is True)


def _read_json(source: str, file: str) -> Any:
    try:
        path = Path(source) / file if Path(source).is_dir() else _from_hub(source, file)
        return None if path is None else json.loads(path.read_text(encoding="utf-8"))
    except Exception:  # somebody else's files, and the Hub, can fail in any way; the model is loaded already
        return None


def _from_hub(name: str, file: str) -> Path | None:
    """A file of a model of the Hub, from the cache where it is there or known to be absent."""
    from huggingface_hub import file_exists, hf_hub_download, try_to_load_from_cache

    found = try_to_load_from_cache(name, file)
    # Asking first, because a download that cannot reach the Hub tries again for half a minute.
    if found is None and file_exists(name, file):
        found = hf_hub_download(name, file)
    return Path(found) if isinstance(found, str) else None


def is_classifiers(provenance: Mapping[str, Any]) -> bool:
    """Whether the vector that was analysed is the one that the model's classifier reads."""
    pool = _recorded(provenance)
    return bool(provenance.get("model", {}).get("labels")) and (pool is None or pool["by"] == CLASSIFIER)


def described(provenance: Mapping[str, Any]) -> str:
    """A phrase for the vector that was analysed, as "the mean of the token vectors" or "what the classifier reads ([CLS])"."""
    pool, classifiers = _recorded(provenance), is_classifiers(provenance)
    if pool is None:
        return "what the classifier reads" if classifiers else "the vector that stands for a text"
    token = pool.get("token")
    # Decoders classify from the last token, which has no name of its own.
    phrase = {
        "first": f"the first token, {token}" if token else "the first token",
        "last": "the last token",
        "mean": "the mean of the token vectors",
        "cls": f"the token {token}" if token else "the last token",
    }[pool["vector"]]
    return f"what the classifier reads ({token or phrase})" if classifiers else phrase


def sourced(provenance: Mapping[str, Any]) -> str | None:
    """The phrase with where the choice was read, as "the mean of the token vectors (1_Pooling/config.json)"; None for results
    that do not say it."""
    pool = _recorded(provenance)
    if pool is None:
        return None
    return described(provenance) if is_classifiers(provenance) else f"{described(provenance)} ({pool['by']})"


def pool_identity(provenance: Mapping[str, Any]) -> str | None:
    """What two parts of one result must share: the classifier's own vector, or one of another name; None where none is told."""
    pool = _recorded(provenance)
    return CLASSIFIER if is_classifiers(provenance) else None if pool is None else pool["vector"]


def _recorded(provenance: Mapping[str, Any]) -> Mapping[str, str] | None:
    """What provenance.json says of the vector; None in folders of earlier versions, and where it makes no sense."""
    pool = provenance.get("pool")
    known = isinstance(pool, Mapping) and pool.get("vector") in get_args(Vector) and isinstance(pool.get("by"), str)
    return pool if known else None
