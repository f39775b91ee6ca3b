"""Where the class is read: every supported type answers as plain transformers does for the text alone, whatever the batch."""

import runpy
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassFieldValidationError
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from conoscope.capture import Capture
from conoscope.corpora import Corpus, Example
from conoscope.loading import LoadedModel
from conoscope.traces import Answer

ROOT = Path(__file__).parents[1]
SUPPORTED = runpy.run_path(str(ROOT / "benchmarks" / "supported.py"))
CAPTURED = [
    cells[0]
    for line in (ROOT / "docs" / "supported.md").read_text().splitlines()
    if line.startswith("|") and (cells := [cell.strip() for cell in line.split("|")[1:-1]])[1] in ("on the interface", "followed")
]
PAD, END, UNKNOWN, OTHER = "<pad>", "<end>", "<unknown>", "<other>"
WORDS = {word: number for number, word in enumerate([PAD, "<begin>", END, UNKNOWN, OTHER, *(f"w{n}" for n in range(5, 99))])}
LENGTHS = (1, 3, 4, 6, 7, 9, 12, 30)
LONGEST = 14


def tokenizer(pad: str | None, ends: bool = False) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.WordLevel(WORDS, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if ends:
        backend.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, WORDS[END])])
    names = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=pad, eos_token=END, unk_token=UNKNOWN, model_input_names=names
    )


CASES: dict[str, tuple[int | None, str | None, bool]] = {
    "one padding token": (0, PAD, False),
    "no padding token": (None, None, False),
    "padded with the end": (WORDS[END], END, False),
    "padded with the end, which ends every text": (WORDS[END], END, True),
    "ends every text, no padding token": (None, None, True),
    "padded with another token than the tokenizer's": (0, OTHER, True),
    "a padding token that the model does not have": (500, PAD, False),
}
"""The configuration's padding token, the tokenizer's, and whether every text ends with the end token."""


def texts() -> list[Example]:
    """Texts of several lengths: one is cut, some end in an unknown word, some have the padding or the end token in them."""
    generator = torch.Generator().manual_seed(3)
    plain = [" ".join(f"w{n}" for n in torch.randint(5, 99, (length,), generator=generator).tolist()) for length in LENGTHS]
    odd = ["w7 w8 zebra", f"w9 {END} w10 w11", f"w12 w13 {PAD}", f"{PAD} {OTHER} w14 w15 {END} {END}", f"{END}", "zebra zebra"]
    return [Example(text, id=str(number)) for number, text in enumerate([*plain, *odd])]


def alone(module: PreTrainedModel, tokenize: PreTrainedTokenizerFast, example: Example) -> Tensor:
    encoded = tokenize(example.text, truncation=True, max_length=LONGEST, return_tensors="pt")
    with torch.no_grad():
        found: Tensor = module(**encoded).logits[0]
    return found


def answered(loaded: LoadedModel, size: int, run: Any = None) -> dict[str, Tensor]:
    batcher, examples = loaded.batcher(Corpus.of([]), LONGEST), texts()
    return {
        name: logits
        for batch in batcher.batches(examples, size)
        for name, logits in zip(batch.ids, loaded.answer(batch, run), strict=True)
    }


def assert_same(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    scale = max(float(logits.abs().max()) for logits in expected.values())
    for name, logits in expected.items():
        assert float((found[name] - logits).abs().max()) <= 1e-4 * scale, name
        assert int(found[name].argmax()) == int(logits.argmax()), name


@pytest.fixture(scope="module", params=CAPTURED)
def module(request: pytest.FixtureRequest) -> PreTrainedModel:
    found: PreTrainedModel = SUPPORTED["built"](request.param)
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_type_answers_as_for_the_text_alone(module: PreTrainedModel, case: str) -> None:
    named, pad, ends = CASES[case]
    try:
        module.config.pad_token_id = named
    except StrictDataclassFieldValidationError:
        pytest.skip("no such configuration can be made")
    tokenize = tokenizer(pad, ends)
    loaded = LoadedModel(module, tokenize, "tiny", ("a", "b", "c"))
    expected = {example.id: alone(module, tokenize, example) for example in texts()}
    assert len({tuple(logits.tolist()) for logits in expected.values()}) > 2, "the texts must differ"
    answers: list[Answer] = []
    for side in ("left", "right"):
        tokenize.padding_side = side
        assert_same(answered(loaded, 32 if side == "left" else 1), expected)
    with Capture(module) as capture:
        look = partial(capture, receive=lambda trace: None, answer=answers.append)
        assert_same(answered(loaded, 32, look), expected)
    assert module.config.pad_token_id == named
    assert_read_where_the_model_reads(module, answers, expected)


def assert_read_where_the_model_reads(module: PreTrainedModel, answers: list[Answer], expected: Mapping[str, Tensor]) -> None:
    """The vector of the last layer that is taken for the classifier's gives, through the model's own map, the model's answer."""
    head = getattr(module, "score", None)
    found: dict[str, Tensor] = {}
    for answer in answers:
        if head is not None and answer.hidden is not None and answer.layer == answer.layers:
            found |= dict(zip(answer.batch.ids, head(answer.hidden).detach(), strict=True))
    if found:
        assert_same(found, expected)
