"""Joining: the provenance of a whole from those of its shards, the same in whatever order they are joined."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conoscope.errors import OutputError, one_of
from conoscope.pooling import pool_identity

IDENTITY = ("model", "corpus", "measures", "options")
"""What two results must share to be parts of one."""
JOINED = ("pool", "shards", "seen", "gaps", "notes", "versions", "command", "commands", "every")
"""What is of each shard, or compared apart; all else must be equal."""
MODULUS = 2**63
"""The digests of shards are added up modulo this."""


def differences(one: Mapping[str, Any], other: Mapping[str, Any], keys: Sequence[str] = (*IDENTITY, "shards")) -> str | None:
    """In what two results are not of the same run; None where they are. A model is the same by its weights, wherever it lies and
    whatever else lies there."""
    for key in keys:
        left, right = (_compared(part, key) for part in (one, other))
        if left != right and isinstance(left, Mapping) and isinstance(right, Mapping):
            inner = next(name for name in {**left, **right} if left.get(name) != right.get(name))
            return f"{key} {inner} {left.get(inner)}, not {right.get(inner)}"
        if left != right:
            return f"{key} {left}, not {right}"
    pools = pool_identity(one), pool_identity(other)
    return None if pools[0] == pools[1] else "pool {}, not {}".format(*pools)


def _compared(part: Mapping[str, Any], key: str) -> Any:
    """What is compared of a part; what it does not say is the same as None, as an option that an earlier version did not have."""
    if key == "shards":
        return sorted(part[key], key=shard_number)
    found = {**part[key], "name": "", "training": None} if key == "model" else part.get(key)
    return {name: value for name, value in found.items() if value is not None} if isinstance(found, Mapping) else found


def shard_number(shard: str) -> int:
    """The number of a shard such as `10/12`: what shards are ordered by."""
    return int(shard.partition("/")[0])


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance of two parts together; refuses what are no parts of one whole."""
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
    found: dict[str, str] = part.get("commands") or dict.fromkeys(part["shards"], part.get("command", ""))
    return found


def _added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Every count of what was seen, added up; one that either part does not know is not known of the whole."""
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
    """What either part lacks or notes, each once, sorted so that the order of the parts does not matter."""
    found: Iterable[str] = {*first.get(key, ()), *second.get(key, ())}
    return sorted(found)


def _versions(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Of each package the version, or every version that a shard was measured with."""
    return {
        name: ", ".join(sorted({*first.get(name, "").split(", "), *second.get(name, "").split(", ")} - {""}))
        for name in sorted({**first, **second})
    }
