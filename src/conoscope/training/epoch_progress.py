"""EpochProgress: what the Trainer shows while it trains: a bar of steps, and one line after each epoch."""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from conoscope.common.terminal import Progress, doing, say


class EpochProgress(TrainerCallback):  # type: ignore[misc]
    """Callback that shows the steps of each epoch and prints one line after it, on standard error."""

    def __init__(self) -> None:
        self._bar: Progress | None = None

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Begin the bar of an epoch."""
        self.close()
        steps = round(state.max_steps / max(args.num_train_epochs, 1))
        self._bar = Progress(steps, True, f"epoch {int(state.epoch or 0) + 1}: trained", "step").__enter__()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Count a step."""
        if self._bar is not None:
            self._bar.advance(1)

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """End the bar of an epoch."""
        self.close()
        doing(f"epoch {round(state.epoch or 0)}: validating")

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Print the scores of an epoch."""
        metrics = kwargs["metrics"]
        scores = f"validation loss {metrics['eval_loss']:.4f}, accuracy {metrics['eval_accuracy']:.4f}"
        say(f"epoch {state.epoch:.0f}: {scores}", error=True)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
        self._bar = None
