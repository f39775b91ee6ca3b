"""Opening: the classifier that is asked for, and plain passes over its batches."""

from collections.abc import Collection

import torch
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.loading import LoadedModel, ModelSource, load_and_tell
from conoscope.causes.editor import Editor
from conoscope.causes.edits import Site
from conoscope.causes.passes import Kept
from conoscope.common.errors import ModelError


def classifier(model: ModelSource, device: str | torch.device | None, dtype: str | torch.dtype | None, what: str) -> LoadedModel:
    """The model, loaded; ModelError if it is no classifier, which is `what` needs."""
    loaded = load_and_tell(model, device, dtype)
    if len(loaded.labels) < 2:
        raise ModelError(f"{loaded.name} is no classifier, and {what} is of a class; give a model that was trained on labels")
    return loaded


def plain_pass(loaded: LoadedModel, editor: Editor, batch: Batch, sites: Collection[Site] = ()) -> Kept:
    """The plain pass over a batch, with the vectors of these sites; OverflowedError if any of its vectors is not finite."""
    found: list[Kept] = []

    def keep(moved: Batch) -> Tensor:
        found.append(editor.keep(moved, sites))
        return found[0].answer

    loaded.answer(batch, keep, watch=True)
    return found[0]
