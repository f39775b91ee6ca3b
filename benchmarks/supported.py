"""Which models can be captured: every type of transformers with a sequence classifier, built tiny, saved with a tokenizer,
measured with `conoscope measure`, and what was found of it.

    python benchmarks/supported.py [TYPE ...] [--write docs/supported.md]

Models are random, three layers of four heads where the type allows, with weights large enough that a wrong mask shows; texts
are of several lengths. A type is *on the interface*, *followed* (its own softmax), *refused*, or was *not tried*.
"""

import argparse
import io
import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerFast
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
from transformers.utils import logging

from conoscope.capture.batch import Batch
from conoscope.capture.implementation import attention_of
from conoscope.capture.loading import load_model
from conoscope.capture.recorder import Capture, verify
from conoscope.capture.trace import Trace
from conoscope.capture.ways import OURS
from conoscope.cli import main as conoscope

TYPES = sorted(MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES)
HEAD = (
    *("type", "how", "layers", "input", "q, k", "attention", "W_O", "feed-forward", "output", "pooling", "class read at"),
    *("padding", "weights differ", "logits differ"),
)
SPECIAL = ("<pad>", "<begin>", "<end>", "<unknown>", "<other>")
PIECES = ("qwen2",)
"""Types whose tokenizer is one of pieces, whatever is saved."""
PLACES = {"first": "first", "last": "last", "unpadded": "last but pads", "several": "several", None: "not found"}
ROUNDING = 1e-5
"""Logits of these models, which are about 1, differ by no more if only the order of sums differs."""
LARGEST = 10_000_000
"""Parameters of the largest model that is built."""
SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "vocab_size": 99,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "num_labels": 3,
}
_DECODER = {
    **{f"{side}_{part}": size for side in ("encoder", "decoder") for part, size in (("layers", 2), ("ffn_dim", 32))},
    "d_model": 32,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}
_EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "head_dim": 8,
}
_LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "qk_head_dim": 16,
}
_LATENT = {**_EXPERTS, **_LATENT, "head_dim": 8, "num_key_value_heads": 4}
_RECURRENT = {
    **_EXPERTS,
    "num_hidden_layers": 4,
    **{f"linear_{part}": 2 for part in ("num_key_heads", "num_value_heads")},
    **{f"linear_{part}": 8 for part in ("key_head_dim", "value_head_dim")},
}
_NARROW = {"head_dim": 8}
_NESTED = {"text_config": {**SHAPE, "head_dim": 8}}
CHANGES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("bart", "bigbird_pegasus", "mbart", "mvp", "plbart"), _DECODER),
    **dict.fromkeys(("mixtral", "qwen2_moe", "qwen3_moe", "phimoe", "gpt_oss", "minimax", "jetmoe", "hunyuan_v1_moe"), _EXPERTS),
    **dict.fromkeys(("axk1", "axk2", "deepseek_v2", "deepseek_v3", "mistral4", "minicpm3"), _LATENT),
    **dict.fromkeys(("hunyuan_v1_dense", "ministral", "nemotron", "gemma", "helium", "seed_oss", "ministral3"), _NARROW),
    **dict.fromkeys(("gemma3", "modernvbert", "ultravbert"), _NESTED),
    "big_bird": {"attention_type": "original_full"},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 16},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8, "share_att_key": True},
    "funnel": {"num_hidden_layers": None, "block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64},
    "gpt_neo": {"num_layers": 3, "attention_types": [[["global"], 3]]},
    "gptj": {"rotary_dim": 8},
    "layoutlmv3": {"visual_embed": False, "coordinate_size": 6, "shape_size": 4},
    "jamba": {**_EXPERTS, "attn_layer_period": 2, "attn_layer_offset": 1},
    **dict.fromkeys(("qwen3_5_text", "qwen3_next"), _RECURRENT),
    "esmc": {"num_key_value_heads": None},
    "mistral4": {**_LATENT, "head_dim": 16},
    "lilt": {"hidden_size": 48},
    "longformer": {"attention_window": 4},
    "luke": {"entity_vocab_size": 9, "entity_emb_size": 8},
    "perceiver": {"d_model": 32, "d_latents": 32, "num_latents": 8, "num_self_attends_per_block": 2, "num_blocks": 1},
    "reformer": {"axial_pos_embds_dim": [8, 24], "axial_pos_shape": [8, 8], "attention_head_size": 8, "feed_forward_size": 32},
    "roc_bert": {"pronunciation_vocab_size": 9, "shape_vocab_size": 9, "pronunciation_embed_dim": 8, "shape_embed_dim": 8},
    "squeezebert": {"embedding_size": 32},
    "xlnet": {"max_position_embeddings": None, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 64},
    "xmod": {"default_language": "en_XX"},
}


def built(name: str) -> PreTrainedModel | str:
    """A small model of a type, or why there is none."""
    torch.manual_seed(0)
    told = {key: value for key, value in {**SHAPE, **CHANGES.get(name, {})}.items() if value is not None}
    implementation = told.pop("attn_implementation", None)
    try:
        config = AutoConfig.for_model(name, **told)
        with torch.device("meta"):
            parameters = AutoModelForSequenceClassification.from_config(config).num_parameters()
        if parameters > LARGEST:
            return "not tried: no small shape"
        built = AutoModelForSequenceClassification.from_config(config, attn_implementation=implementation).eval()
        if not built._supports_attention_backend and built.config._attn_implementation != "eager":
            # As load_model does: an SDPA of its own cannot be seen into (Falcon).
            torch.manual_seed(0)
            built = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").eval()
        return built
    except Exception as error:
        return f"not tried: not built from a small shape ({type(error).__name__})"


def batch(lengths: Sequence[int] = (11, 7, 4)) -> Batch:
    """Random tokens, padded at the end, the last real one that of the end of a text."""
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(5, SHAPE["vocab_size"], real.shape, generator=torch.Generator().manual_seed(1))  # type: ignore[call-overload]
    return Batch.of_ids(ids.where(real, 0), real)


def tokenizer(pieces: bool = False) -> PreTrainedTokenizerFast:
    """One of words, w5 to w98, or of letters: some types take every tokenizer for one of pieces."""
    letters = [*"abcdefghijklmnopqrstuvwxyz0123456789", "\u0120"]
    words = letters if pieces else [f"w{number}" for number in range(5, SHAPE["vocab_size"])]  # type: ignore[call-overload]
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *words])}
    made = Tokenizer(models.BPE(vocabulary, []) if pieces else models.WordLevel(vocabulary, unk_token=SPECIAL[3]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if pieces else pre_tokenizers.WhitespaceSplit()
    names = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), SPECIAL, strict=False))
    return PreTrainedTokenizerFast(tokenizer_object=made, model_input_names=["input_ids", "attention_mask"], **names)


def saved(module: PreTrainedModel, folder: Path) -> Path:
    """A folder with the model, its tokenizer and, beside it, texts of one to eleven words."""
    name = module.config.model_type
    module.save_pretrained(folder / name)
    tokenizer(name in PIECES).save_pretrained(folder / name)
    words = torch.randint(5, SHAPE["vocab_size"], (6, 11), generator=torch.Generator().manual_seed(2)).tolist()  # type: ignore[call-overload]
    rows = [
        {"text": " ".join(f"w{word}" for word in row[: 2 * number + 1]), "label": str(number % 3)}
        for number, row in enumerate(words)
    ]
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder / name


def measured(folder: Path) -> str | None:
    """Why `conoscope measure` refuses a saved model; None where it measures it."""
    told, shown = io.StringIO(), io.StringIO()
    asked = ["measure", str(folder), str(folder.parent / "texts.jsonl"), "-m", "attention_entropy", "-o", f"{folder}-measured"]
    with redirect_stderr(told), redirect_stdout(shown):
        code = conoscope([*asked, "--device", "cpu"])
    return told.getvalue().strip().removeprefix("conoscope: ") if code else None


def row(name: str) -> list[str]:
    """What was found of a type, one cell for each of HEAD."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as place:
        warnings.simplefilter("ignore")
        module = built(name)
        cells = [module] if isinstance(module, str) else tried(module, Path(place))
    return [name, *cells, *[""] * (len(HEAD) - 1 - len(cells))]


def tried(module: PreTrainedModel, place: Path) -> list[str]:
    """What was found of a model that is saved, measured and loaded again."""
    folder = saved(module, place)
    refused = measured(folder)
    return captured(folder) if refused is None else [reason(refused)]


def captured(folder: Path) -> list[str]:
    """How a saved model is captured and what was found of it."""
    traces: list[Trace] = []
    loaded = load_model(folder, device="cpu")
    module, reading = loaded.module, loaded.reading
    with Capture(module) as capture:
        capture.find_wiring()
    assert capture.choice is not None
    own = capture.choice.way not in OURS
    with Capture(module, whole=True) as capture:
        capture(batch(), traces.append)
    differ = max(verify(module, batch()).values())
    wiring, layers = capture.wiring, [trace for trace in traces if trace.layer]
    assert wiring is not None
    return [
        "followed" if capture.traced else "on the interface",
        str(len(layers)),
        share(wiring.inputs),
        share(trace.query for trace in layers),
        "own" if own else "plain",
        share(wiring.projections),
        share(wiring.forwards),
        share(wiring.outputs),
        wiring.pooling or "no",
        PLACES[reading.place],
        reading.side or "none",
        weights_differ(module, layers),
        number(differ),
    ]


def reason(message: str) -> str:
    """An error in a few words."""
    known = {
        "is an encoder-decoder": "refused: encoder-decoder",
        "never called": "refused: no softmax over all tokens",
        "one call a layer": "refused: not one attention a layer",
        "no one table": "refused: no one table of token embeddings",
        "does not run on tokens": "not tried: does not run on tokens",
    }
    return next((short for part, short in known.items() if part in message), f"refused: {message}")


def share(found: Iterable[object]) -> str:
    """Yes, no, or how many of how many."""
    there = [x is not None for x in found]
    return "yes" if all(there) else f"{sum(there)} of {len(there)}" if any(there) else "no"


def weights_differ(module: PreTrainedModel, layers: Sequence[Trace]) -> str:
    """The largest difference to the weights that the model itself gives, where it does."""
    expected: Sequence[Tensor] = ()
    with suppress(Exception), attention_of(module, "eager"), torch.no_grad():
        expected = module(**batch().inputs, output_attentions=True).attentions or ()
    weights = [trace.weights for trace in layers if trace.weights is not None]
    if [x.shape for x in expected] != [x.shape for x in weights] or any(bool((x < 0).any()) for x in expected):
        return "none given"  # SqueezeBERT gives its scores.
    return number(max(float((one - other).abs().max()) for one, other in zip(weights, expected, strict=True)))


def number(x: float) -> str:
    """0, a difference of rounding, or its power of ten."""
    return "0" if not x else "rounding" if x <= ROUNDING else f"{x:.0e}"


def markdown(rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table."""
    return ["| " + " | ".join(cells) + " |" for cells in (HEAD, ["---"] * len(HEAD), *rows)]


def page(rows: Sequence[Sequence[str]]) -> str:
    """The page of all types."""
    counts = Counter(cells[1].split(":")[0] for cells in rows)
    counted = ", ".join(f"{counts[how]} {how}" for how in ("on the interface", "followed", "refused", "not tried"))
    return "\n".join(
        [
            "# Which models can be captured",
            "",
            "Written by `python benchmarks/supported.py --write docs/supported.md`; a test compares it at every change.",
            f"Of the {len(rows)} types with a sequence classifier in transformers {transformers.__version__}: {counted}.",
            "",
            "[How each part is found](capture.md). *Attention* is plain where it is softmax(scale · q kᵀ + mask): conoscope",
            "then computes it itself, without whole weights ([performance](performance.md)); other models run their own.",
            "*Weights* are compared with `output_attentions` in eager, *logits* with the plain model on the same attention.",
            "Each line is a run of `conoscope measure` on a folder with the model and a tokenizer. The *class is read at* the",
            "token whose last vector the answer changes with; *padding* is on the side where it changes no answer, or there",
            "is none, and only texts of one length share a batch. BigBird is built with full attention. Nyströmformer has as",
            "many landmarks as tokens: with fewer it has no softmax over all tokens, and is refused.",
            "",
            *markdown(rows),
            "",
        ]
    )


def main() -> None:
    """Print the table, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("types", nargs="*", help="types of models (all)")
    parser.add_argument("--write", type=Path, help="the page to write")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    rows = [row(name) for name in arguments.types or TYPES]
    if arguments.write:
        arguments.write.write_text(page(rows), encoding="utf-8")
    else:
        print("\n".join(markdown(rows)))


if __name__ == "__main__":
    main()
