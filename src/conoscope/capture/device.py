"""Device and precision of a model, and the check that a loaded model has the requested ones."""

import torch
from transformers import PreTrainedModel

from conoscope.common.errors import ModelError, one_of

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16}
USUAL = "float32"
"""Default precision for loading a folder."""


def device_of(name: str | torch.device | None) -> torch.device:
    """The device of this name, which must support float64; for `auto` and None a GPU if there is one, else the CPU."""
    if name is None or name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        # The sums are float64, which not every device supports.
        torch.zeros(1, dtype=torch.float64, device=name).cpu()
    except Exception as error:
        raise ModelError(f"no device {str(name)!r} that can be used on this machine; try --device cpu") from error
    return torch.device(name)


def dtype_of(name: str | torch.dtype | None) -> torch.dtype:
    """The torch dtype of this name; the default for None."""
    known = str(USUAL if name is None else name).removeprefix("torch.")
    if known not in DTYPES:
        raise ModelError(f"no dtype {known!r}; known: {one_of(DTYPES)}")
    return DTYPES[known]


def dtype_name(module: PreTrainedModel) -> str:
    """The name of a model's dtype."""
    return str(module.dtype).removeprefix("torch.")


def refuse_elsewhere(
    module: PreTrainedModel, name: str, device: str | torch.device | None, dtype: str | torch.dtype | None
) -> None:
    """ModelError if a loaded model has another device or precision: it belongs to the caller and is not moved silently."""
    if dtype is not None and dtype_of(dtype) != module.dtype:
        precision = str(dtype).removeprefix("torch.")
        raise ModelError(
            f"{name} is loaded in {dtype_name(module)} and {precision} is asked for; load it so, as in "
            f"load_model(..., dtype={precision!r}), or leave dtype out"
        )
    if device is None or device == "auto":
        return
    requested, current = device_of(device), torch.device(module.device)
    if requested.type != current.type or requested.index not in (None, current.index):
        raise ModelError(
            f"{name} is loaded on {current} and {device} is asked for; load it there, as in "
            f"load_model(..., device={str(device)!r}), or leave device out"
        )
