"""Loading models: what is accepted, and what is refused with one clear line."""

from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import CONFIG_MAPPING

from architectures import tiny
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.capture.pretrained import load_tokenizer
from conoscope.common.errors import ModelError
from conoscope.corpora import Corpus, Example


@pytest.fixture
def saved(tmp_path: Path, pure: LoadedModel) -> Path:
    pure.module.save_pretrained(tmp_path)
    pure.tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_a_folder_that_is_not_there_is_named() -> None:
    with pytest.raises(ModelError, match=r"no folder 'no/such/model'; give a folder written by save_pretrained, or a Hub id"):
        load_model("no/such/model")


def test_a_hub_id_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(ModelError, match=r"cannot load the model 'nobody/model'.*written by save_pretrained, or a Hub id"):
        load_model("nobody/model")


def test_weights_that_are_not_numbers_are_refused_by_name(saved: Path) -> None:
    weights = load_file(saved / "model.safetensors")
    weights["layers.1.attention.key.weight"][0, 0] = torch.nan
    save_file(weights, saved / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"holds NaN or infinity in 'layers\.1\.attention\.key\.weight'"):
        load_model(saved)


def test_missing_weights_are_not_made_up(saved: Path) -> None:
    weights = load_file(saved / "model.safetensors")
    del weights["layers.2.attention.query.weight"]
    save_file(weights, saved / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks the weights 'layers\.2\.attention\.query\.weight'"):
        load_model(saved)


def test_a_module_comes_with_its_tokenizer() -> None:
    with pytest.raises(ModelError, match=r"came without a tokenizer; pass load_model\(module, tokenizer=...\)"):
        load_model(tiny("bert"))


def test_unknown_devices_and_dtypes_are_refused(saved: Path) -> None:
    with pytest.raises(ModelError, match="no dtype 'float8'; known: bfloat16, float16, float32, float64"):
        load_model(saved, dtype="float8")
    with pytest.raises(ModelError, match="no device 'abacus' that can be used on this machine; try --device cpu"):
        load_model(saved, device="abacus")


def test_a_padding_token_is_found_for_models_without_one(pure: LoadedModel) -> None:
    backend = Tokenizer.from_str(pure.tokenizer.backend_tokenizer.to_str())
    backend.no_padding()
    tokenizer, model = type(pure.tokenizer)(tokenizer_object=backend, eos_token="<sep>"), tiny("gpt2")
    model.config.pad_token_id = None
    loaded = load_model(model, tokenizer)
    texts = [Example("the soup was", id="a"), Example("the soup", id="b")]
    (batch,) = loaded.batcher(Corpus.of(texts)).batches(texts, 2)
    assert batch.pad is not None
    assert bool((batch.inputs["input_ids"] != batch.pad).equal(batch.real))
    loaded.answer(batch)
    assert model.config.pad_token_id is None
    assert loaded.tokenizer.pad_token is None


def test_labels_go_by_name_and_those_the_model_lacks_are_refused(pure: LoadedModel) -> None:
    assert pure.label_numbers(Corpus.of([Example("x", "Positive"), Example("x", "negative")])) == {"Positive": 1, "negative": 0}
    with pytest.raises(ModelError, match=r"has the label 'neutral', which .* does not have \(it has negative, positive\)"):
        pure.label_numbers(Corpus.of([Example("x", "neutral")]))


def as_named(*labels: str) -> Corpus:
    return Corpus.of([Example("x", label) for label in labels])


def test_labels_that_differ_by_case_alone_stay_two(pure: LoadedModel) -> None:
    two = replace(pure, labels=("us", "US", "Them"))
    assert two.label_numbers(as_named("US", "us")) == {"US": 1, "us": 0}
    assert two.label_numbers(as_named("us", "THEM")) == {"us": 0, "THEM": 2}
    with pytest.raises(ModelError, match=r"has the label 'Us', which .* does not have \(it has .*\), and 'us' is another label"):
        two.label_numbers(as_named("Us"))
    one = replace(pure, labels=("us", "them"))
    assert one.label_numbers(as_named("US", "Them")) == {"US": 0, "Them": 1}
    with pytest.raises(ModelError, match=r"has the label 'US', which .* and 'us' is another label; rename the labels"):
        one.label_numbers(as_named("us", "US"))


def test_two_labels_are_never_one_class(pure: LoadedModel) -> None:
    generic = replace(pure, labels=("LABEL_0", "LABEL_1"))
    with pytest.raises(ModelError, match="has the labels '0' and 'LABEL_0', which are one class"):
        generic.label_numbers(as_named("0", "LABEL_0"))
    for label in ("2", "00", "-1", "0" * 5000, "²"):
        with pytest.raises(ModelError, match="has the label"):
            generic.label_numbers(as_named(label))


def test_two_classes_of_one_name_are_refused(pure: LoadedModel) -> None:
    model = tiny("bert")
    model.config.id2label = {0: "us", 1: "us", 2: "them"}
    with pytest.raises(ModelError, match="has two classes of the name 'us'; give each its own in id2label"):
        load_model(model, pure.tokenizer)


def test_a_model_in_memory_is_taken_as_it_is_or_refused(pure: LoadedModel) -> None:
    assert load_model(pure) is load_model(pure, dtype="float64", device="cpu") is load_model(pure, device="auto") is pure
    assert load_model(pure, dtype=torch.float64, device=torch.device("cpu")) is pure
    assert load_model(pure.module, pure.tokenizer, "auto", "float64").module is pure.module
    for given in ((pure, None), (pure.module, pure.tokenizer)):
        with pytest.raises(ModelError, match=r"is loaded in float64 and float32 is asked for; load it so"):
            load_model(*given, dtype="float32")
        with pytest.raises(ModelError, match=r"is loaded on cpu and meta is asked for|no device 'meta'"):
            load_model(*given, device="meta")
    with pytest.raises(ModelError, match="is loaded with a tokenizer already"):
        load_model(pure, copy(pure.tokenizer))


def test_labels_go_by_number_where_the_model_has_no_names(pure: LoadedModel) -> None:
    generic = LoadedModel(tiny("bert"), pure.tokenizer, "tiny", ("LABEL_0", "LABEL_1", "LABEL_2"))
    assert generic.label_numbers(Corpus.of([Example("x", "2"), Example("x", "LABEL_1")])) == {"2": 2, "LABEL_1": 1}


def test_a_digest_changes_with_any_weight(pure: LoadedModel) -> None:
    before = pure.digest()
    with torch.no_grad():
        pure.module.classifier.bias[0] += 1
        changed = pure.digest()
        pure.module.classifier.bias[0] -= 1
    assert changed != before
    assert pure.digest() == before


def test_the_longest_input_is_what_tokenizer_and_positions_allow(minilm: LoadedModel, pure: LoadedModel) -> None:
    assert minilm.max_length == 512
    assert pure.max_length > 100_000


def test_positions_that_begin_after_the_padding_leave_less_room(pure: LoadedModel) -> None:
    assert LoadedModel(tiny("roberta"), pure.tokenizer, "tiny").max_length == 64 - 1
    assert LoadedModel(tiny("bert"), pure.tokenizer, "tiny").max_length == 64


def test_the_same_weights_in_another_shape_are_another_model(pure: LoadedModel) -> None:
    before, heads = pure.digest(), pure.module.config.num_attention_heads
    pure.module.config.num_attention_heads = 1
    changed = pure.digest()
    pure.module.config.num_attention_heads = heads
    assert changed != before == pure.digest()


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2", "t5", "deberta-v2"])
def test_a_folder_without_a_tokenizer_is_refused(name: str, tmp_path: Path) -> None:
    """transformers makes up a tokenizer of special tokens there, by which every word is unknown."""
    CONFIG_MAPPING[name]().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"no tokenizer in .*, only special tokens; save the model's there") as refused:
        load_tokenizer(str(tmp_path))
    assert "\n" not in str(refused.value)


def test_a_model_whose_folder_has_no_tokenizer_is_refused_everywhere(pure: LoadedModel, tmp_path: Path) -> None:
    model = tiny("bert")
    model.save_pretrained(tmp_path)
    for source in (str(tmp_path), type(model).from_pretrained(tmp_path)):
        with pytest.raises(ModelError, match="no tokenizer in"):
            load_model(source)
    assert load_model(str(tmp_path), pure.tokenizer).tokenizer is pure.tokenizer


@pytest.mark.parametrize("broken", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"null", b"[1]", b"\x00\xff garbage"])
def test_a_broken_file_gets_one_line(saved: Path, broken: str, content: bytes) -> None:
    (saved / broken).write_bytes(content)
    with pytest.raises(ModelError, match="cannot load the model"):
        load_model(saved)


def test_pickled_weights_are_not_read(saved: Path) -> None:
    torch.save(load_file(saved / "model.safetensors"), saved / "pytorch_model.bin")
    (saved / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="cannot load the model"):
        load_model(saved)
