"""A tally as files: tally.safetensors (the numbers) and tally.json (their needs and layers)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from conoscope.common.errors import OutputError
from conoscope.common.sealing import FILES, check_files, digests, read_sealed, sealed
from conoscope.common.writing import atomic, write_text
from conoscope.measures.needs import Need
from conoscope.measures.tally import Tally
from conoscope.sums.statistics import Statistic

FORMAT, UNSEALED = 5, 4
"""The format of files with digests, and the same without them, which is read and not checked."""
NUMBERS, NEEDS = "tally.safetensors", "tally.json"


def save_tally(tally: Tally, folder: Path) -> None:
    """Write a tally to this folder."""
    tally.flush()
    tensors: dict[str, Tensor] = {}
    entries: list[dict[str, Any]] = []
    for number, ((need, layer), sums) in enumerate(tally.sums.items()):
        entries.append({"layer": layer, "need": tally.needs.index(need)})
        state = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in sums.state().items()}
        tensors |= {f"{number}/{name}": tensor for name, tensor in state.items()}
    needs = [{"statistic": need.statistic, "quantity": need.quantity, "options": dict(need.options)} for need in tally.needs]
    with atomic(folder / NUMBERS) as beside:
        save_file(tensors, beside)
    content = {"format": FORMAT, "needs": needs, "sums": entries, FILES: digests(folder, [NUMBERS])}
    write_text(folder / NEEDS, sealed(content, 1))


def load_tally(folder: Path, quantity: str | None = None) -> Tally:
    """The tally that was written to this folder; of one quantity alone, if that is given."""
    try:
        described = read_sealed(folder / NEEDS)
        if described["format"] not in (FORMAT, UNSEALED):
            raise OutputError(
                f"the sums in {folder} are in format {described['format']}, which another version wrote, and this one reads "
                f"format {FORMAT}; measure again"
            )
        if described["format"] == FORMAT or FILES in described:
            check_files(folder, described[FILES])
        return _restored(described, folder / NUMBERS, quantity)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError, SafetensorError) as error:
        raise OutputError(
            f"no results can be read from {folder}: {error}; expected a folder written by conoscope measure -o"
        ) from error


def of_quantity(tally: Tally, quantity: str) -> Tally:
    """The sums of one quantity."""
    tally.flush()
    needs = tuple(need for need in tally.needs if need.quantity == quantity)
    return Tally(needs, {key: sums for key, sums in tally.sums.items() if key[0] in needs})


def _restored(described: Mapping[str, Any], path: Path, quantity: str | None) -> Tally:
    needs = tuple(Need(n["statistic"], n["quantity"], tuple(sorted(n["options"].items()))) for n in described["needs"])
    keys = [(needs[entry["need"]], entry["layer"]) for entry in described["sums"]]
    chosen = {number: key for number, key in enumerate(keys) if quantity in (None, key[0].quantity)}
    with safe_open(path, "pt") as stored:
        states: dict[int, dict[str, Tensor]] = {number: {} for number in chosen}
        for path_in in stored.keys():  # noqa: SIM118  it is no mapping
            number, _, name = path_in.partition("/")
            if int(number) in states:
                states[int(number)][name] = stored.get_tensor(path_in)
    sums = {key: Statistic.kinds[key[0].statistic].restore(states[number]) for number, key in chosen.items()}
    return Tally(tuple(need for need in needs if quantity in (None, need.quantity)), sums)
