"""PenalisedTrainer: a Trainer that adds penalties on attention to the loss, and records the steps of small models on a GPU."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, Trainer
from transformers.modeling_outputs import SequenceClassifierOutput

from conoscope.capture.class_token import Reading
from conoscope.training.attention_weights import collected
from conoscope.training.encoding import by_length, split_off_marks
from conoscope.training.penalties import Penalties, penalty
from conoscope.training.recorded_steps import RecordedSteps


class PenalisedTrainer(Trainer):  # type: ignore[misc]
    """A Trainer that adds penalties on attention to the loss; texts that must not be padded are run in groups of equal length.

    `records`: steps are recorded and replayed (recorded_steps.py).
    """

    def __init__(
        self,
        *arguments: Any,
        penalties: Penalties,
        tokenizer: PreTrainedTokenizerBase,
        reading: Reading,
        records: bool = False,
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self.recorded = RecordedSteps(self.model, self._loss_of, self.args.device) if records else None
        self.penalties, self.tokenizer, self.reading = penalties, tokenizer, reading
        # Callbacks get the tokenizer from here; as the Trainer's own it would be saved with every checkpoint.
        self.callback_handler.processing_class = tokenizer

    def training_step(self, model: Any, inputs: dict[str, Tensor], num_items_in_batch: Any = None) -> Tensor:
        """Forward and backward of a batch, and its loss."""
        if self.recorded is None:
            loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
            return loss
        model.train()
        return self.recorded(self._prepare_inputs(inputs))

    def floating_point_ops(self, inputs: dict[str, Tensor]) -> int:
        """0 unless it is logged: it counts the model's parameters at every step."""
        return 0 if self.args.logging_strategy == "no" else int(super().floating_point_ops(inputs))

    def _loss_of(self, inputs: Mapping[str, Tensor]) -> Tensor:
        loss: Tensor = self.compute_loss(self.model, dict(inputs))
        return loss

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """The norm of the gradient; None unless it is clipped or logged, since it takes a pass over every weight."""
        needed = self.args.max_grad_norm > 0 or self.args.logging_strategy != "no"
        return super()._get_grad_norm(model, grad_norm) if needed else None

    def compute_loss(self, model: Any, inputs: dict[str, Tensor], return_outputs: bool = False, **named: Any) -> Any:
        """The model's own loss plus the penalties."""
        if self.reading.side is not None:
            return self._loss(model, inputs, return_outputs, **named)
        rows, parts = zip(*by_length(inputs), strict=True)
        shares = [len(of) / sum(map(len, rows)) for of in rows]
        losses = [self._loss(model, part, True, share, **named) for part, share in zip(parts, shares, strict=True)]
        loss = sum(share * part for share, (part, _) in zip(shares, losses, strict=True))
        logits = torch.cat([outputs.logits for _, outputs in losses])[torch.cat(rows).argsort()]
        return (loss, SequenceClassifierOutput(loss=loss, logits=logits)) if return_outputs else loss

    def _loss(self, model: Any, inputs: dict[str, Tensor], return_outputs: bool, share: float = 1.0, **named: Any) -> Any:
        """The loss of a batch, or of a `share` of one, by which it will be multiplied."""
        if not self.penalties.any:
            return super().compute_loss(model, inputs, return_outputs, **named)
        plain, marks = split_off_marks(inputs, self.tokenizer)
        with collected(self.accelerator.unwrap_model(model)) as maps:
            outputs = model(**plain)
        # A sum must not be weighted by the share.
        chosen = replace(self.penalties, entropy=self.penalties.entropy / share) if self.penalties.summed else self.penalties
        loss = outputs.loss + penalty(maps, marks, chosen)
        return (loss, outputs) if return_outputs else loss
