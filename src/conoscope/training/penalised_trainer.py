"""PenalisedTrainer: a Trainer that adds penalties on attention to the loss and pads texts as the model expects."""

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, Trainer
from transformers.modeling_outputs import SequenceClassifierOutput

from conoscope.capture.class_token import Reading
from conoscope.training.attention_weights import collected
from conoscope.training.encoding import by_length, split_off_marks
from conoscope.training.penalties import Penalties, penalty


class PenalisedTrainer(Trainer):  # type: ignore[misc]
    """A Trainer that adds penalties on attention to the loss; texts that must not be padded are run in groups of equal length."""

    def __init__(
        self, *arguments: Any, penalties: Penalties, tokenizer: PreTrainedTokenizerBase, reading: Reading, **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self.penalties, self.tokenizer, self.reading = penalties, tokenizer, reading

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """The norm of the gradient; None unless it is clipped or logged, since it takes a pass over every weight."""
        needed = self.args.max_grad_norm > 0 or self.args.logging_strategy != "no"
        return super()._get_grad_norm(model, grad_norm) if needed else None

    def compute_loss(self, model: Any, inputs: dict[str, Tensor], return_outputs: bool = False, **named: Any) -> Any:
        """The model's own loss plus the penalties."""
        if self.reading.side is not None:
            return self._loss(model, inputs, return_outputs, **named)
        rows, parts = zip(*by_length(inputs), strict=True)
        losses = [self._loss(model, part, True, **named) for part in parts]
        loss = sum(len(of) * part for of, (part, _) in zip(rows, losses, strict=True)) / sum(map(len, rows))
        logits = torch.cat([outputs.logits for _, outputs in losses])[torch.cat(rows).argsort()]
        return (loss, SequenceClassifierOutput(loss=loss, logits=logits)) if return_outputs else loss

    def _loss(self, model: Any, inputs: dict[str, Tensor], return_outputs: bool, **named: Any) -> Any:
        if not self.penalties.any:
            return super().compute_loss(model, inputs, return_outputs, **named)
        plain, marks = split_off_marks(inputs, self.tokenizer)
        with collected(self.accelerator.unwrap_model(model)) as maps:
            outputs = model(**plain)
        loss = outputs.loss + penalty(maps, marks, self.penalties)
        return (loss, outputs) if return_outputs else loss
