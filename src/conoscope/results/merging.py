"""Merging: the provenance of a whole result from those of its shards, independent of their order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conoscope.common.errors import OutputError, one_of
from conoscope.common.pooling import pool_identity

IDENTITY = ("model", "corpus", "measures", "options")
"""The keys that must be equal for two results to be parts of one."""
JOINED = ("pool", "shards", "seen", "gaps", "notes", "versions", "command", "commands", "every", "capture")
"""The keys that belong to each shard, or are compared separately; all other keys must be equal."""
MODULUS = 2**63
"""The digests of shards are added up modulo this."""


def differences(one: Mapping[str, Any], other: Mapping[str, Any], keys: Sequence[str] = (*IDENTITY, "shards")) -> str | None:
    """The first difference by which two results are not of the same run; None if they are.

    Models are the same if their weights are, whatever their folder and the other files in it.
    """
    for key in keys:
        left, right = (_compared(part, key) for part in (one, other))
        if left != right and isinstance(left, Mapping) and isinstance(right, Mapping):
            inner = next(name for name in {**left, **right} if left.get(name) != right.get(name))
            if inner == "fingerprint":
                return f"{left['name']} had other texts or columns" if key == "corpus" else f"{key} {inner} differs"
            return f"{key} {inner} {left.get(inner)}, not {right.get(inner)}"
        if left != right:
            return f"{key} {left}, not {right}"
    pools = pool_identity(one), pool_identity(other)
    return None if pools[0] == pools[1] else "pool {}, not {}".format(*pools)


def _compared(part: Mapping[str, Any], key: str) -> Any:
    """The value to compare under a key; a missing entry equals None, since earlier versions lacked some options."""
    if key == "shards":
        return sorted(part[key], key=shard_number)
    entry = {**part[key], "name": "", "training": None} if key == "model" else part.get(key)
    return {name: value for name, value in entry.items() if value is not None} if isinstance(entry, Mapping) else entry


def shard_number(shard: str) -> int:
    """The number of a shard, 10 for `10/12`; shards are ordered by it."""
    return int(shard.partition("/")[0])


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance of two merged parts; raises OutputError if they are not parts of one whole."""
    first, second = sorted((one, other), key=lambda part: min(map(shard_number, part["shards"])))
    others = [key for key in {**first, **second} if key not in (*IDENTITY, *JOINED)]
    if (differing := differences(one, other, (*IDENTITY, *others))) is not None:
        raise OutputError(f"these are not parts of one result ({differing}); merge what was measured alike")
    _refuse_overlap(one["shards"], other["shards"])
    commands = {**_commands(first), **_commands(second)}
    ordered = {shard: commands[shard] for shard in sorted(commands, key=shard_number)}
    return {
        **first,
        "shards": sorted({*one["shards"], *other["shards"]}, key=shard_number),
        "seen": _added(one["seen"], other["seen"]),
        "gaps": _of_either(first, second, "gaps"),
        "notes": _of_either(first, second, "notes"),
        "capture": _of_either(first, second, "capture"),
        "versions": _versions(first.get("versions", {}), second.get("versions", {})),
        "commands": ordered,
        "command": " && ".join(dict.fromkeys(filter(None, ordered.values()))),
        "every": bool(first.get("every") or second.get("every")),
    }


def _refuse_overlap(one: Sequence[str], other: Sequence[str]) -> None:
    counts = {shard.partition("/")[2] for shard in (*one, *other)}
    if len(counts) > 1:
        cuts = " and into ".join(sorted(counts, key=int))
        raise OutputError(f"these shards overlap: the corpus was cut into {cuts}; merge the parts of one cut")
    if twice := set(one) & set(other):
        raise OutputError(f"shard {one_of(twice)} is there twice and would be counted twice; merge each shard once")


def _commands(part: Mapping[str, Any]) -> dict[str, str]:
    """The command of each shard."""
    commands: dict[str, str] = part.get("commands") or dict.fromkeys(part["shards"], part.get("command", ""))
    return commands


def _added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of both parts, added up; a count that either part lacks is left out."""
    both: dict[str, Any] = {}
    for key in (key for key in one if key in other):
        if all(isinstance(part[key], int) for part in (one, other)):
            total = one[key] + other[key]
            both[key] = total % MODULUS if key == "digest" else total
        elif all(isinstance(part[key], Mapping) for part in (one, other)):
            both[key] = {name: one[key].get(name, 0) + other[key].get(name, 0) for name in sorted({**one[key], **other[key]})}
        elif one[key] == other[key]:
            both[key] = one[key]
        else:
            raise OutputError(f"these are not parts of one result (seen {key} {one[key]}, not {other[key]}); measure again")
    return both


def _of_either(first: Mapping[str, Any], second: Mapping[str, Any], key: str) -> list[str]:
    """The entries of both lists, each once, sorted so that the order of the parts does not matter."""
    entries: Iterable[str] = {*first.get(key, ()), *second.get(key, ())}
    return sorted(entries)


def _versions(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """The version of each package, or every version that a shard was measured with."""
    return {
        name: ", ".join(sorted({*first.get(name, "").split(", "), *second.get(name, "").split(", ")} - {""}))
        for name in sorted({**first, **second})
    }
