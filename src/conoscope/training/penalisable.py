"""What cannot be penalised: models without attention, texts without rationales or without [CLS]."""

from collections.abc import Mapping

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from conoscope.common.errors import CorpusError, ModelError
from conoscope.training.encoding import Encoded
from conoscope.training.settings import Training


def refuse_without_attention(model: PreTrainedModel, chosen: Training) -> None:
    """Raise an error if there are penalties and the model has no layers."""
    if chosen.penalties.any and getattr(model.config, "num_hidden_layers", 1) == 0:
        raise ModelError(f"{chosen.preset} has no layers of attention to penalise; leave the penalties out")


def refuse_unpenalisable(data: Mapping[str, Encoded], tokenizer: PreTrainedTokenizerBase, chosen: Training) -> None:
    """Raise an error if the texts lack what the penalties are computed from."""
    penalties, learned = chosen.penalties, data["train"]
    if penalties.supervised and not learned.marked:
        raise CorpusError(f"{learned.name} has no rationales to penalise by; name their column with --rationale")
    first = tokenizer.cls_token_id
    if (
        penalties.any
        and penalties.rows == "cls"
        and any(first not in row["input_ids"] for of in data.values() for row in of.rows)
    ):
        raise ModelError("no [CLS] whose attention could be penalised; give --penalty-rows all")
