"""Edits: every site of every supported type can be changed, what is not changed stays, and a model is left as it was."""

import copy
import runpy
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from architectures import SHAPES, padded, tiny
from conoscope.capture.batch import Batch
from conoscope.capture.forward import answer_of
from conoscope.capture.implementation import attention_of
from conoscope.capture.wiring import Projection
from conoscope.causes.editor import Editor
from conoscope.causes.edits import Edit, Site, added, averaged, replaced, scaled, zeroed
from conoscope.causes.parts import ABLATED, Part, References, edit_of, estimated, parts_of
from conoscope.common.errors import CaptureError, MeasureError

ROOT = Path(__file__).parents[1]
SUPPORTED = runpy.run_path(str(ROOT / "benchmarks" / "supported.py"))
ROWS = {
    cells[0]: dict(zip(SUPPORTED["HEAD"], cells, strict=True))
    for line in (ROOT / "docs" / "supported.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and (cells := [cell.strip() for cell in line.split("|")[1:-1]])[1] in ("on the interface", "followed")
}
COLUMNS: dict[Site, str] = {"context": "W_O", "output": "W_O", "forward": "feed-forward", "hidden": "output"}


@cache
def built(name: str) -> PreTrainedModel:
    found: PreTrainedModel = SUPPORTED["built"](name)
    return found


def texts(seed: int) -> Batch:
    """Three texts of 11, 7 and 4 tokens."""
    real = torch.arange(11) < torch.tensor([[11], [7], [4]])
    ids = torch.randint(5, 99, real.shape, generator=torch.Generator().manual_seed(seed))
    return Batch.of_ids(ids.where(real, 0), real)


def plain(module: PreTrainedModel, batch: Batch) -> Tensor:
    """The answer of the plain model; without a cache, which changes how some round."""
    with attention_of(module, module.config._attn_implementation), torch.no_grad():
        return answer_of(module, batch)


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-5 * float(other.abs().max().clamp_min(1)))


def test_the_types_are_those_of_the_page() -> None:
    assert len(ROWS) == 95


@pytest.mark.parametrize("name", ["convbert", "nystromformer"])
def test_estimates_are_slopes_of_what_an_ablation_changes_where_padding_is_read_too(name: str) -> None:
    module, batch, step = built(name), texts(1), 1e-5
    module = copy.deepcopy(module).double()
    with Editor(module) as editor:
        parts, target = parts_of(editor), editor.run(batch).argmax(-1)
        vectors = editor.keep(batch, ABLATED).vectors
        found = estimated(parts, "zero", batch, editor.slopes(batch, target, ABLATED), None, editor.heads)
        for number, part in enumerate(parts):
            edit = edit_of(part, "zero", batch, None, editor.heads[part.layer - 1])
            x = vectors[part.place]
            away = edit.applied(x, editor.heads[part.layer - 1]) - x
            less, more = (
                editor.run(batch, [Edit(part.site, part.layer, added(by * away))])[range(3), target] for by in (-step, step)
            )
            torch.testing.assert_close(found[:, number], (more - less) / (2 * step), rtol=1e-4, atol=1e-6)


def test_an_ablation_leaves_padding_as_it_is() -> None:
    batch = texts(1)
    x, place = torch.randn(3, 11, 8), ("context", 1)
    references = References({place: torch.zeros(8)}, {place: torch.ones(8)})
    for how, new in (("zero", 0.0), ("mean", 1.0)):
        for head, chosen in ((None, slice(0, 8)), (2, slice(4, 8))):
            edited = edit_of(Part("context", 1, head), how, batch, references, 2).applied(x, 2)
            assert torch.equal(edited[~batch.real], x[~batch.real])
            assert (edited[batch.real][:, chosen] == new).all()


@pytest.mark.parametrize("name", ROWS)
def test_every_site_that_is_found_can_be_edited_and_without_an_edit_nothing_changes(name: str) -> None:
    module, batch, other = built(name), texts(1), texts(2)
    answer, of_other = plain(module, batch), plain(module, other)
    with Editor(module) as editor:
        layers = int(ROWS[name]["layers"])
        for site, column in COLUMNS.items():
            every = layers + (site == "hidden")
            expected = {"yes": every, "no": 0}.get(ROWS[name][column]) or int(ROWS[name][column].split()[0].replace("no", "0"))
            assert len(editor.layers_of(site)) == expected, site
        kept, kept_other = editor.keep(batch, ("context", "output", "forward", "hidden")), editor.keep(other)
        assert torch.equal(kept.answer, answer)
        assert torch.equal(editor.run(batch), answer)
        assert all(torch.equal(part, answer) for part in editor.rerun(kept, [[]]))
        for (site, layer), vectors in kept.vectors.items():
            same = Edit(site, layer, replaced(vectors))
            assert torch.equal(editor.run(batch, [same]), answer), (site, layer)
            changed = Edit(site, layer, scaled(0.0 if site != "hidden" else 2.0))
            whole = editor.run(batch, [Edit(site, layer, added(torch.ones(())), rows=slice(0, 2)), changed])
            again = editor.rerun(kept, [[Edit(site, layer, added(torch.ones(())), rows=slice(0, 2)), changed]])[0]
            assert torch.equal(again, whole), (site, layer)
            if site == "hidden":
                # All that the layers above read is this state: moved to another text, it brings the answer with it.
                assert torch.equal(editor.run(other, [same]), answer), layer
                moved, stayed = editor.rerun(kept_other, [[same], []])
                close(moved, answer)
                close(stayed, of_other)
            else:
                assert float((whole - answer).abs().max()) > 1e-3, (site, layer)


@pytest.mark.parametrize("name", SHAPES)
def test_the_context_of_a_head_reaches_the_output_through_its_part_of_w_o(name: str) -> None:
    module, batch = tiny(name, torch.float64), texts(1)
    with Editor(module) as editor:
        kept = editor.keep(batch, ("context", "output"))
        for layer, heads in enumerate(editor.heads, 1):
            call = editor.wiring.projections[layer - 1]
            assert call is not None
            projection = Projection.of(call[0], heads)
            parts = kept.vectors["context", layer].unflatten(-1, (heads, -1)).transpose(1, 2) @ projection.weight
            bias = 0.0 if projection.bias is None else projection.bias
            torch.testing.assert_close(parts.sum(1) + bias, kept.vectors["output", layer])
            for head in range(1, heads + 1):
                rest = Edit("output", layer, replaced(parts.sum(1) - parts[:, head - 1] + bias))
                without = Edit("context", layer, zeroed(), head=head)
                torch.testing.assert_close(editor.run(batch, [without]), editor.run(batch, [rest]))
            each = [Edit("context", layer, zeroed(), head=head) for head in range(1, heads + 1)]
            none = editor.run(batch, [Edit("output", layer, replaced(torch.zeros(()) + bias))])
            torch.testing.assert_close(editor.run(batch, each), none)
            torch.testing.assert_close(editor.run(batch, [Edit("context", layer, zeroed())]), none)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "deberta"])
def test_an_edit_changes_the_tokens_and_the_rows_that_it_names(name: str) -> None:
    module, batch = tiny(name), texts(1)
    where = torch.zeros_like(batch.real)
    where[:, 2] = True
    with Editor(module) as editor:
        before = editor.keep(batch, ("hidden",))
        edit = Edit("hidden", 1, added(torch.arange(32.0), where), rows=slice(1, 3))
        with pytest.raises(RuntimeError, match="must match"):  # a mask of three rows for two
            editor.run(batch, [edit])
        some = Edit("hidden", 1, added(torch.arange(32.0), where[1:]), rows=slice(1, 3))
        after = {}

        def kept(x: Tensor) -> Tensor:
            after["vectors"] = x
            return x

        answer = editor.run(batch, [some, Edit("hidden", 1, kept)])
    expected = before.vectors["hidden", 1].clone()
    expected[1:, 2] += torch.arange(32.0)
    assert torch.equal(after["vectors"], expected)
    assert torch.equal(answer[0], before.answer[0])
    assert not torch.allclose(answer[1:], before.answer[1:], atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "albert", "gpt2", "llama", "distilbert", "deberta", "modernbert"])
def test_copies_with_their_own_edits_give_what_each_gives_alone(name: str) -> None:
    module, batch = tiny(name, torch.float64), texts(1)
    copies = [
        [Edit("context", 2, zeroed(), head=1)],
        [],
        [Edit("forward", 2, zeroed()), Edit("context", 3, scaled(0.5), head=2)],
        [Edit("hidden", 2, scaled(0.5))],
    ]
    with Editor(module) as editor:
        kept = editor.keep(batch)
        for edits, answer in zip(copies, editor.rerun(kept, copies), strict=True):
            torch.testing.assert_close(answer, editor.run(batch, edits))


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "deberta"])
def test_slopes_are_those_of_small_edits(name: str) -> None:
    module, batch = tiny(name, torch.float64), texts(1)
    # Llama and DeBERTa compute some of their steps in float32, so that smaller ones would be lost in its rounding.
    target, step = torch.tensor([0, 1, 2]), 1e-3
    with Editor(module) as editor:
        slopes = editor.slopes(batch, target, ("context", "output", "forward"))
        assert len(slopes) == 9
        for (site, layer), (vectors, slope) in slopes.items():
            after, before = (
                editor.run(batch, [Edit(site, layer, scaled(1 + by))]).gather(1, target[:, None])[:, 0] for by in (step, -step)
            )
            torch.testing.assert_close((after - before) / (2 * step), (vectors * slope).sum((1, 2)), rtol=1e-3, atol=2e-3)


def hooks(module: PreTrainedModel) -> list[tuple[int, int, bool]]:
    return [(len(m._forward_hooks), len(m._forward_pre_hooks), "forward" in m.__dict__) for m in module.modules()]


@pytest.mark.parametrize("name", ["bert", "albert", "mpnet"])
def test_a_model_is_left_as_it_was_even_after_an_error(name: str) -> None:
    module, batch = tiny(name).train(), texts(1)
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    module(**batch.inputs, output_hidden_states=True)  # transformers hooks its own modules when it is first asked for these
    before, answer, implementation = hooks(module), plain(module, batch), module.config._attn_implementation

    def fail(x: Tensor) -> Tensor:
        raise ValueError("a change of a user's own")

    with pytest.raises(ValueError, match="of a user's own"), Editor(module) as editor:
        editor.run(batch, [Edit("output", 1, fail)])
    with Editor(module) as editor:
        with pytest.raises(ValueError, match="of a user's own"):
            editor.run(batch, [Edit("hidden", 1, fail)])
        # An error ends its own pass.
        assert torch.equal(editor.run(batch), answer)
        assert torch.equal(plain(module, batch), answer)
    assert hooks(module) == before
    assert module.config._attn_implementation == implementation
    assert all(part.training for part in module.modules())
    assert torch.equal(plain(module, batch), answer)


REFUSED = {
    "BertForSequenceClassification has no head 2.5; name one from 2.1 to 2.4": Edit("context", 2, zeroed(), head=5),
    "has no head 2.0; name one": Edit("context", 2, zeroed(), head=0),
    "has no layer 4 to edit; give one from 1 to 3": Edit("context", 4, zeroed(), head=1),
    "has no layer 0 to edit; give one from 1 to 3": Edit("forward", 0, zeroed()),
    "has no layer -1 to edit; give one from 0 to 3": Edit("hidden", -1, zeroed()),
    "the feed-forward output has no heads to edit; give no head, or the site context": Edit("forward", 1, zeroed(), head=1),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_a_model_does_not_have_is_refused_in_one_line(message: str) -> None:
    with Editor(tiny("bert")) as editor, pytest.raises(MeasureError, match=message) as refused:
        editor.run(texts(1), [REFUSED[message]])
    assert "\n" not in str(refused.value)


def test_a_site_that_no_model_has_is_refused() -> None:
    edit = Edit("hidden", 1, zeroed())
    object.__setattr__(edit, "site", "logits")  # where shapes are checked, types are too
    with (
        Editor(tiny("bert")) as editor,
        pytest.raises(MeasureError, match="no site 'logits' can be edited; known: context, output"),
    ):
        editor.run(texts(1), [edit])


def test_a_site_that_was_not_found_is_refused_by_its_name() -> None:
    with Editor(built("axk2")) as editor:
        message = "the context of its heads, before the output projection of layer 1 cannot be followed in .*; edit another site"
        with pytest.raises(CaptureError, match=message):
            editor.run(texts(1), [Edit("context", 1, zeroed(), head=1)])


def test_an_editor_can_be_entered_again_and_leaves_the_model_as_it_was_in_between() -> None:
    module, batch = tiny("bert"), padded()
    editor, answers = Editor(module), []
    for _ in range(3):
        with editor:
            edits = [Edit("context", 2, zeroed(), head=3)]
            answers.append(editor.run(batch, edits))
            assert torch.equal(editor.rerun(editor.keep(batch), [edits])[0], answers[-1])
        hooks = [hook for part in module.modules() for hook in (*part._forward_hooks.values(), *part._forward_pre_hooks.values())]
        assert not any(getattr(hook, "__self__", None) is editor for hook in hooks)
        assert not any("forward" in vars(part) for part in module.modules())
    assert torch.equal(answers[0], answers[1])
    assert torch.equal(answers[0], answers[2])


def test_vectors_become_their_mean_over_some_tokens_of_their_own_text() -> None:
    x, where = torch.randn(2, 4, 3), torch.tensor([[True, True, False, True], [True, False, False, False]])
    new = averaged(where)(x)
    assert torch.allclose(new[0, where[0]], x[0, where[0]].mean(0).expand(3, -1))
    assert torch.equal(new[1], x[1])
    assert torch.equal(new[0, 2], x[0, 2])
