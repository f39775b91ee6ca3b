"""Where the class is read: every supported type answers as plain transformers does for the text alone, whatever the batch."""

import json
import runpy
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassFieldValidationError
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from conoscope.capture.class_token import Reading, reading_of
from conoscope.capture.implementation import attention_of
from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import Capture
from conoscope.capture.trace import PooledOutput
from conoscope.cli import main
from conoscope.corpora import Corpus, Example
from conoscope.measuring.pipeline import Options, measure
from conoscope.training.trainer import Training, train

ROOT = Path(__file__).parents[1]
SUPPORTED = runpy.run_path(str(ROOT / "benchmarks" / "supported.py"))
CAPTURED = [
    cells[0]
    for line in (ROOT / "docs" / "supported.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and (cells := [cell.strip() for cell in line.split("|")[1:-1]])[1] in ("on the interface", "followed")
]
PAD, END, UNKNOWN, OTHER = "<pad>", "<end>", "<unknown>", "<other>"
WORDS = {word: number for number, word in enumerate([PAD, "<begin>", END, UNKNOWN, OTHER, *(f"w{n}" for n in range(5, 99))])}
LENGTHS = (1, 4, 6, 9, 30)
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
    "padded with the unknown token": (WORDS[UNKNOWN], UNKNOWN, False),
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
    found: PreTrainedModel | str = SUPPORTED["built"](request.param)
    if isinstance(found, str):
        pytest.skip(f"{request.param}: {found}")
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
    answers: list[PooledOutput] = []
    for side in ("left", "right"):
        tokenize.padding_side = side
        assert_same(answered(loaded, 32 if side == "left" else 1), expected)
    # Weights are those of eager attention, from which SDPA differs in some types of earlier versions (Gemma 2, Doge in 5.17).
    with attention_of(module, "eager"):
        expected = {example.id: alone(module, tokenize, example) for example in texts()}
    with Capture(module) as capture:
        look = partial(capture, receive=lambda trace: None, answer=answers.append)
        assert_same(answered(loaded, 32, look), expected)
    assert module.config.pad_token_id == named
    assert_read_where_the_model_reads(module, answers, expected)


def assert_read_where_the_model_reads(
    module: PreTrainedModel, answers: list[PooledOutput], expected: Mapping[str, Tensor]
) -> None:
    """The vector of the last layer that is taken for the classifier's gives, through the model's own map, the model's answer."""
    head = getattr(module, "score", None)
    found: dict[str, Tensor] = {}
    for answer in answers:
        if head is not None and answer.hidden is not None and answer.layer == answer.layers:
            found |= dict(zip(answer.batch.ids, head(answer.hidden).detach(), strict=True))
    if found:
        assert_same(found, expected)


def pairs_tokenizer() -> PreTrainedTokenizerFast:
    """What the tokenizers of BERT and XLNet give: which of two texts each token is of."""
    backend = Tokenizer(models.WordLevel(WORDS, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A:0 {END}:0", pair=f"$A:0 {END}:0 $B:1 {END}:1", special_tokens=[(END, WORDS[END])]
    )
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=PAD, eos_token=END, unk_token=UNKNOWN, model_input_names=names
    )


def test_every_type_answers_texts_and_pairs_with_token_types_as_for_each_alone(module: PreTrainedModel) -> None:
    module.config.pad_token_id, tokenize = 0, pairs_tokenizer()
    two = [("w5 w6 w7", "w8"), ("w9", "w10 w11 w12 w13"), ("w20 w31", "w41 zebra")]
    pairs = [Example(text, pair=pair, id=text) for text, pair in two]
    examples = [*pairs, Example("w50 w51", id="d"), Example("w52 w53 w54 w55", id="e")]
    expected: dict[str, Tensor] = {}
    try:
        with attention_of(module, "eager"), torch.no_grad():
            for example in examples:
                expected[example.id] = module(**tokenize(example.text, example.pair, return_tensors="pt")).logits[0]
    except IndexError:
        pytest.skip("plain transformers does not take a second type of tokens there")
    loaded, found, seen = LoadedModel(module, tokenize, "tiny", ("a", "b", "c")), {}, list[bool]()
    with Capture(module) as capture:
        look = partial(capture, receive=lambda trace: seen.append(trace.layer == 0 or trace.reduction("entropy") is not None))
        for batch in loaded.batcher(Corpus.of([])).batches(examples, 8):
            found |= dict(zip(batch.ids, loaded.answer(batch, look), strict=True))
    assert_same(found, expected)
    assert all(seen)


def decoder(named: int | None = None) -> PreTrainedModel:
    found: PreTrainedModel = SUPPORTED["built"]("gpt2")
    found.config.pad_token_id = named
    return found


def test_a_last_token_is_told_from_one_that_is_not_padding() -> None:
    ids = torch.tensor([[5, 6, 2, 2, 9], [2, 2, 2, 9, 9], [7, 2, 8, 2, 2]])
    real = torch.tensor([[True] * 4 + [False], [True] * 3 + [False] * 2, [True] * 5])
    assert Reading("unpadded", pad=2).at(ids, real).tolist() == [1, 0, 2]
    assert Reading("unpadded", pad=None).at(ids, real).tolist() == Reading("last").at(ids, real).tolist() == [3, 2, 4]
    assert Reading("first").at(ids, real.flip(-1)).tolist() == [1, 2, 0]
    assert Reading("several").at(ids, real).tolist() == Reading().at(ids, real).tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bert", Reading("first", "right", 0)),
        ("gpt2", Reading("unpadded", "right", 0)),
        ("xlnet", Reading("last", "left", 0)),
        ("eurobert", Reading("several", "right", 0)),
        ("convbert", Reading("first", None, 0)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_found_of_a_model_in_any_type_of_numbers(name: str, expected: Reading, dtype: torch.dtype) -> None:
    module = SUPPORTED["built"](name).to(dtype).train()
    assert reading_of(module) == expected
    assert module.training


@pytest.mark.parametrize("pad", [None, -1, 10**9])
def test_texts_that_leave_no_token_to_pad_with_are_read_by_their_length(pad: int | None) -> None:
    loaded = LoadedModel(decoder(pad), tokenizer(None), "tiny", ("a", "b", "c"))
    every = list(WORDS)
    texts = ("w5", "w5 w6", "w7 w8", " ".join(every[:49]), " ".join(every[49:]))
    examples = [Example(text, id=str(number)) for number, text in enumerate(texts)]
    batches = list(loaded.batcher(Corpus.of([])).batches(examples, 5))
    assert [len(batch.ids) for batch in batches] == [1, 2, 1, 1]
    for batch in batches:
        for name, logits in zip(batch.ids, loaded.answer(batch), strict=True):
            with torch.no_grad():
                plain = loaded.module(**loaded.tokenizer(texts[int(name)], return_tensors="pt")).logits[0]
            torch.testing.assert_close(logits, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("one padding token", None),
        ("no padding token", "names no padding token; the class is read at the last token"),
        ("padded with the end", None),
        (
            "padded with the end, which ends every text",
            "ends every text with the padding token; the class is read at the token before",
        ),
        (
            "padded with another token than the tokenizer's",
            "names the padding token 0 and its tokenizer 4; texts are padded with 0",
        ),
        (
            "padded with the unknown token",
            "stands for unknown words too; in a text that ends in them the class is read at the token before",
        ),
        ("a padding token that the model does not have", "names the padding token 500, which it does not have"),
    ],
)
def test_what_a_model_leaves_in_doubt_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, said: str | None
) -> None:
    named, pad, ends = CASES[case]
    decoder(named).save_pretrained(tmp_path / "model")
    tokenizer(pad, ends).save_pretrained(tmp_path / "model")
    rows = [json.dumps({"text": example.text, "label": "0"}) + "\n" for example in texts()]
    (tmp_path / "texts.jsonl").write_text("".join(rows), encoding="utf-8")
    source = [str(tmp_path / "model"), str(tmp_path / "texts.jsonl"), "--max-length", str(LONGEST)]
    assert main(["measure", *source, "-m", "attention_entropy", "-o", str(tmp_path / "out")]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "padding token" in line]
    assert len(lines) == (said is not None)
    notes = json.loads((tmp_path / "out" / "provenance.json").read_text(encoding="utf-8"))["notes"]
    assert [f"conoscope: {note}" for note in notes if "padding token" in note] == lines
    assert all(said is not None and said in line for line in lines)


def test_an_encoder_is_in_no_doubt_without_a_padding_token() -> None:
    module = SUPPORTED["built"]("bert")
    module.config.pad_token_id = None
    assert LoadedModel(module, tokenizer(None), "tiny").notes == ()


def test_a_run_counts_the_labelled_texts_and_those_answered_right(tmp_path: Path) -> None:
    loaded = LoadedModel(decoder(WORDS[END]), tokenizer(END), "tiny", ("LABEL_0", "LABEL_1", "LABEL_2"))
    said = {example.id: int(alone(loaded.module, loaded.tokenizer, example).argmax()) for example in texts()}
    labels = {name: str((answer + (int(name) % 3 == 0)) % 3) for name, answer in said.items()}
    marked = [replace(example, label=labels[example.id]) for example in texts()]
    corpus = Corpus.of([*marked, Example("w5 w6", id="unlabelled")])
    options = Options(max_length=LONGEST, batch_size=4)
    whole = measure(loaded, corpus, ["attention_entropy"], options).provenance["seen"]
    right = sum(int(name) % 3 != 0 for name in said)
    assert (whole["examples"], whole["labelled"], whole["correct"]) == (len(marked) + 1, len(marked), right)
    parts = [measure(loaded, corpus, ["attention_entropy"], replace(options, shard=(n, 2))) for n in (1, 2)]
    assert (parts[0] + parts[1]).provenance["seen"] == whole


def test_a_decoder_whose_tokenizer_has_a_cls_is_read_where_it_reads() -> None:
    loaded = LoadedModel(decoder(0), tokenizer(PAD), "tiny", ("a", "b", "c"))
    loaded.tokenizer.cls_token = "<begin>"
    batch = loaded.batcher(Corpus.of([])).batch([Example("<begin> w5 w6"), Example("<begin> w7")])
    assert batch.cls.tolist() == [2, 1]


KEYS = ("n_positions", "max_position_embeddings", "n_ctx", "pad_token_id", "id2label")
"""Not `num_labels`: transformers itself counts up to it, however large, until no memory is left."""
ODD = (None, 0, -1, 10**30, 2.5, "many", float("nan"))


@pytest.mark.parametrize("value", ODD, ids=str)
@pytest.mark.parametrize("key", [*KEYS, "model_max_length"])
def test_an_odd_number_in_a_configuration_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: Any
) -> None:
    decoder(0).save_pretrained(tmp_path / "model")
    tokenizer(PAD).save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / ("config.json" if key in KEYS else "tokenizer_config.json")
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), key: value}), encoding="utf-8")
    (tmp_path / "texts.jsonl").write_text('{"text": "w5 w6"}\n{"text": "w5 w6 w7"}\n', encoding="utf-8")
    code = main(["measure", str(tmp_path / "model"), str(tmp_path / "texts.jsonl"), "-m", "attention_entropy"])
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("conoscope:")]
    assert code == 0 or (code == 2 and len(told) == 1)


@pytest.mark.parametrize("name", ["gpt2", "xlnet", "convbert"])
@pytest.mark.parametrize(
    "case", ["no padding token", "padded with the end, which ends every text", "ends every text, no padding token"]
)
def test_a_model_that_was_trained_here_answers_the_same_in_plain_transformers(tmp_path: Path, name: str, case: str) -> None:
    """The loss that training reports of the test texts, in padded batches, is that of plain transformers on each text alone."""
    module: PreTrainedModel = SUPPORTED["built"](name)
    module.config.pad_token_id, pad, ends = CASES[case]
    module.save_pretrained(tmp_path / "begin")
    tokenizer(pad, ends).save_pretrained(tmp_path / "begin")
    labelled = Corpus.of([replace(example, label=str(number % 2)) for number, example in enumerate(texts())])
    settings = Training(
        checkpoint=str(tmp_path / "begin"), epochs=1, batch_size=8, device="cpu", max_length=LONGEST, learning_rate=1e-4
    )
    trained = train({"train": labelled, "validation": labelled, "test": labelled}, tmp_path / "run", settings)
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "run").eval()
    tokenize = AutoTokenizer.from_pretrained(tmp_path / "run")
    assert plain.config.pad_token_id == tokenize.pad_token_id is not None
    logits = torch.stack([alone(plain, tokenize, example) for example in texts()])
    loss = torch.nn.functional.cross_entropy(logits, torch.arange(len(logits)) % 2)
    assert trained.scores["test"]["loss"] == pytest.approx(float(loss), rel=1e-3)
