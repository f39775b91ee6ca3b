"""Steering: turning by the asked angle, models in which it is known which direction decides, what changes nothing."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binomtest

import conoscope as cs
from architectures import tiny
from commands import refusal
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.causes import steering
from conoscope.causes.directions import directions_of, read_at
from conoscope.causes.editor import Editor
from conoscope.causes.edits import HIDDEN
from conoscope.causes.held_out import held_out
from conoscope.causes.inference import exact_interval
from conoscope.causes.judging import at_token, rule_of
from conoscope.causes.turning import across, angle_between, lengthened, turned
from conoscope.cli import main
from conoscope.common.errors import CorpusError, MeasureError
from conoscope.corpora import Columns, Corpus, Example, train_beside
from conoscope.models.tokenizer import build_tokenizer
from handmade import WORDS, decided, directed, texts


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = tmp_path_factory.mktemp("trained") / "model"
    cs.train("bistro", folder, layers=2, epochs=3)
    return load_model(folder)


def random_model(name: str, dtype: torch.dtype = torch.float64) -> LoadedModel:
    module = tiny(name, dtype)
    module.config.id2label = {0: "a", 1: "b", 2: "c"}
    return load_model(module, build_tokenizer([" ".join(WORDS)]))


def labelled(count: int, seed: int, labels: str = "abc") -> Corpus:
    given = texts(count, seed)
    return Corpus.of([Example(text, labels[number % len(labels)]) for number, text in enumerate(given)], f"texts-{seed}")


def of_words(numbers: range, name: str) -> Corpus:
    """Texts whose last word has these numbers, of several lengths."""
    return Corpus.of([Example(f"{'w3 ' * (number % 4)}w{number}", "ab"[number % 2]) for number in numbers], name)


def whole(effects: Any, by: str, layer: int, direction: str = "class") -> "pd.Series[float]":
    table = effects["steering"]
    rows = table[table["from"].isna() & (table["by"] == by) & (table["layer"] == layer) & (table["direction"] == direction)]
    return rows.set_index(by)["flipped"]


# The geometry of turning


@pytest.mark.parametrize("angle", [1e-4, 0.3, math.pi / 2, 2.5, math.pi])
def test_the_angle_after_turning_is_the_asked_one_and_the_length_stays(angle: float) -> None:
    torch.manual_seed(0)
    x, towards = 7 * torch.randn(20, 16, dtype=torch.float64), torch.randn(20, 16, dtype=torch.float64)
    side = across(x, towards)
    asked = torch.full((20,), angle, dtype=torch.float64)
    moved = turned(x, side, asked)
    assert torch.allclose(angle_between(x, moved), asked, rtol=1e-9, atol=0)
    assert torch.allclose(moved.norm(dim=-1), x.norm(dim=-1), rtol=1e-12)
    assert torch.allclose((side * x).sum(-1), torch.zeros(20, dtype=torch.float64), atol=1e-12)
    displaced = (moved - x).norm(dim=-1)
    assert torch.allclose(displaced, 2 * x.norm(dim=-1) * math.sin(angle / 2), rtol=1e-9)
    longer = lengthened(x, asked)
    assert torch.allclose((longer - x).norm(dim=-1), displaced, rtol=1e-9)
    assert float(angle_between(x, longer).max()) < 1e-12


def test_a_vector_turned_by_the_angle_to_its_target_points_there_and_half_as_far_is_half_way() -> None:
    torch.manual_seed(0)
    x, target = torch.randn(9, 5, dtype=torch.float64), torch.randn(9, 5, dtype=torch.float64)
    aim = angle_between(x, target)
    assert torch.allclose(aim, torch.nn.functional.cosine_similarity(x, target).acos())
    side = across(x, target)
    assert float(angle_between(turned(x, side, aim), target).max()) < 1e-12
    half = turned(x, side, aim / 2)
    assert torch.allclose(angle_between(half, target), aim / 2)
    assert torch.equal(turned(x, side, torch.zeros(9, dtype=torch.float64)), x)
    assert across(x, 3 * x).isnan().all()
    assert torch.equal(turned(x, across(x, -x), aim), x)


@pytest.mark.parametrize("name", ["bert", "llama", "distilbert", "deberta"])
def test_an_angle_of_0_leaves_every_logit_as_it_is(name: str) -> None:
    model = random_model(name, torch.float32)
    corpus = labelled(9, 1)
    batch = model.batcher(corpus).batch(list(corpus))
    with Editor(model.module) as editor:
        kept = editor.keep(batch, ("hidden",))
        for layer in editor.layers_of("hidden"):
            x = read_at(kept.vectors["hidden", layer], kept.batch).double()
            side = across(x, torch.randn_like(x))
            for angle, same in ((0.0, True), (1.0, False)):
                moved = turned(x, side, torch.full((len(x),), angle, dtype=torch.float64))
                (answer,) = editor.rerun(kept, [[at_token(layer, moved, kept)]])
                assert torch.equal(answer, kept.answer) == same


# Models in which the outcome is known


def test_the_one_direction_that_decides_flips_the_answer_at_the_known_angle() -> None:
    model = directed()
    effects = cs.steer(
        model, of_words(range(30, 60), "counted"), directions=of_words(range(30), "given"), angles=(20, 25, 30, 35)
    )
    with torch.no_grad():
        inputs = [model.tokenizer(e.text, return_tensors="pt") for e in of_words(range(60), "all")]
        states = [model.module(**each, output_hidden_states=True).hidden_states for each in inputs]
    for layer in (0, 1, 2, 3):
        units = torch.nn.functional.normalize(torch.stack([each[layer][0, -1] for each in states]), dim=-1)
        classes = torch.stack([units[0:30:2].mean(0), units[1:30:2].mean(0)])
        for angle in (20, 25, 30, 35):
            flips = 0
            for number in range(30, 60):
                u, r = units[number], classes[1 - number % 2]
                side = r - (r @ u) * u
                first = math.cos(math.radians(angle)) * u[0] + math.sin(math.radians(angle)) * side[0] / side.norm()
                flips += bool(first * u[0] < 0)
            assert whole(effects, "angle", layer)[angle] == pytest.approx(flips / 30)
    for layer in (0, 1, 2):
        assert whole(effects, "angle", layer)[35] == 1
        assert whole(effects, "share", layer)[1] == 1
        for control in ("random", "shuffled", "length"):
            assert whole(effects, "angle", layer, control)[35] <= 0.2
        assert (whole(effects, "share", layer, "length") == 0).all()  # what decides is as long beside the rest
    table = effects["steering"]
    judged = table[table["from"].isna()].groupby(["layer", "direction"])["judged"].all()
    for layer in (0, 1, 2):
        assert judged[layer].to_dict() == {"class": True, "random": True, "shuffled": True, "length": True}
    assert not judged[3].any()  # after the last norm the classifier is linear
    assert set(table["from"].dropna()) == {"a", "b"}
    assert (table.groupby(["layer", "direction", "by", "from"])["n"].first() == 15).all()
    assert "not judged" in str(effects)


def test_at_the_last_layer_a_tanh_is_no_linear_head_and_pure_attention_has_one(trained: LoadedModel) -> None:
    for model, corpus, linear in ((trained, cs.load_corpus("bistro:test").first(9), True), (decided(), labelled(9, 1), False)):
        batch = model.batcher(corpus).batch(list(corpus))
        with Editor(model.module) as editor:
            kept = editor.keep(batch, ("hidden",))
            layers = len(editor.heads)
            step = torch.nn.functional.normalize(torch.randn(kept.vectors["hidden", layers].shape[-1]).double(), dim=0)
            assert rule_of(editor, kept, layers, step).linear == linear
            for layer in range(layers):
                rule = rule_of(editor, kept, layer, step)
                assert not rule.linear
                x = read_at(kept.vectors["hidden", layer], kept.batch).double()
                longer = [editor.rerun(kept, [[at_token(layer, by * x, kept)]])[0] for by in (1.2, 2.4)]
                same = all(torch.allclose(answer, kept.answer, rtol=1e-3, atol=1e-3) for answer in longer)
                assert rule.normalised == same
                assert not (model is trained and layer > 0 and same), "attention and the residual see the length"


@pytest.mark.parametrize("idle", [True, False])
def test_length_is_normalised_away_where_only_a_norm_reads_it(idle: bool) -> None:
    model, corpus = directed(), of_words(range(20), "some")
    with torch.no_grad():
        for layer in model.module.model.layers if idle else ():
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    with Editor(model.module) as editor:
        kept = editor.keep(model.batcher(corpus).batch(list(corpus)), ("hidden",))
        step = torch.nn.functional.normalize(torch.randn(kept.vectors["hidden", 1].shape[-1]).double(), dim=0)
        for layer in (0, 1):
            assert rule_of(editor, kept, layer, step).normalised is idle


@pytest.mark.parametrize("name", ["bert", "distilbert", "llama"])
def test_a_row_equals_what_hooks_make_of_each_text_alone(name: str) -> None:
    """Layers are found by name here, texts run one by one, and directions are computed anew."""
    model, layer, angle = random_model(name), 2, 50.0
    given, counted = labelled(30, 1), labelled(12, 2)
    effects = cs.steer(model, counted, directions=given, layer=layer, angles=angle)
    block = next(part for part in model.module.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == 3)[layer - 1]
    at = -1 if name == "llama" else 0
    kept: list[torch.Tensor] = []

    def logits(text: str, new: torch.Tensor | None = None) -> torch.Tensor:
        def hook(module: Any, args: Any, returned: Any) -> Any:
            first = (returned if isinstance(returned, torch.Tensor) else returned[0]).clone()
            kept.append(first[0, at].clone())
            if new is not None:
                first[0, at] = new
            return first if isinstance(returned, torch.Tensor) else (first, *returned[1:])

        handle = block.register_forward_hook(hook)
        with torch.no_grad():
            found = model.module(**model.tokenizer(text, return_tensors="pt")).logits[0]
        handle.remove()
        return found

    by_class: dict[str | None, list[torch.Tensor]] = {}
    for example in given:
        logits(example.text)
        by_class.setdefault(example.label, []).append(kept[-1] / kept[-1].norm())
    directions = [torch.stack(by_class[label]).mean(0) for label in "abc"]
    flips, chances = [], []
    for number, example in enumerate(counted):
        plain, x = logits(example.text), kept[-1]
        target = (int(plain.argmax()) + 1 + number % 2) % 3
        u, r = x / x.norm(), directions[target]
        side = r - (r @ u) * u
        new = x.norm() * (math.cos(math.radians(angle)) * u + math.sin(math.radians(angle)) * side / side.norm())
        answer = logits(example.text, new)
        flips.append(int(answer.argmax()) == target)
        chances.append(float(answer.softmax(-1)[target]))
    table = effects["steering"]
    row = table[table["from"].isna() & (table["by"] == "angle") & (table["direction"] == "class") & (table["angle"] == angle)]
    assert row["flipped"].item() == pytest.approx(np.mean(flips))
    assert row["probability"].item() == pytest.approx(np.mean(chances), abs=1e-9)
    exact = binomtest(sum(flips), len(flips)).proportion_ci(method="exact")
    assert (row["low"].item(), row["high"].item()) == pytest.approx((exact.low, exact.high))


def test_controls_are_within_the_covariance_and_of_shuffled_labels() -> None:
    model = random_model("bert")
    given = labelled(40, 1)
    batcher = model.batcher(given)
    with Editor(model.module) as editor:
        directions = directions_of((editor.keep(batch, HIDDEN) for batch in batcher.batches(iter(given), 8)), [2], "texts")
    many = Corpus.of([Example("w1 w2", id=f"text {number}") for number in range(4000)])
    batch = batcher.batch(list(many))
    source, target = torch.zeros(4000, dtype=torch.long), torch.ones(4000, dtype=torch.long)
    normal, contrast = directions.coefficients(batch, source, target)
    units = directions.units[2]
    drawn = normal @ units
    wanted = units.T @ units
    # The largest of the standard errors of the entries of a covariance of 4000 draws: √((Σii Σjj + Σij²) / 4000).
    error = ((wanted.diag()[:, None] * wanted.diag() + wanted**2) / 4000).sqrt()
    off = ((drawn.T @ drawn / 4000 - wanted) / error).abs()
    assert float(off.mean()) < 1.2  # 0.8 of a normal one
    sizes = directions.labels.bincount()
    assert torch.allclose(contrast.clamp_min(0).sum(-1), torch.ones(4000, dtype=torch.float64))
    assert set((contrast > 0).sum(-1).tolist()) == {int(sizes[1])}
    assert set((contrast < 0).sum(-1).tolist()) == {int(sizes[0])}
    ranks = (contrast > 0).double().mean(0)
    assert float((ranks - sizes[1] / sizes.sum()).abs().max()) < 5 * math.sqrt(0.25 / 4000)


# What changes nothing


def test_padding_copies_and_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, given, counted = random_model("bert"), labelled(30, 1), labelled(20, 2)
    many = cs.steer(model, counted, directions=given, resamples=20)
    monkeypatch.setitem(steering.ROOM, "cpu", 1)
    one = cs.steer(model, counted, directions=given, resamples=20, batch_size=1)
    for name in many.tables:
        pd.testing.assert_frame_equal(many[name], one[name], rtol=1e-6, atol=1e-9)
    assert many["steering"]["flipped"].max() > 0


def test_each_text_is_turned_towards_each_other_class_in_turn() -> None:
    model, given, counted = random_model("bert"), labelled(30, 1), labelled(40, 2)
    effects = cs.steer(model, counted, directions=given, layer=3, angles=30, resamples=0)
    table = effects["steering"].query("direction == 'class' and by == 'angle' and angle == 30")
    pairs = table.dropna(subset="from")
    assert (pairs["from"] != pairs["to"]).all()
    assert pairs["n"].sum() == table[table["from"].isna()]["n"].item() == 40
    assert np.average(pairs["flipped"], weights=pairs["n"]) == pytest.approx(table[table["from"].isna()]["flipped"].item())


def test_exact_intervals_are_those_of_clopper_and_pearson() -> None:
    for ones, n in ((0, 7), (3, 7), (7, 7), (50, 400)):
        wanted = binomtest(ones, n).proportion_ci(method="exact")
        assert exact_interval(np.array(ones), np.array(n)) == pytest.approx([wanted.low, wanted.high])
    assert exact_interval(np.array(0.0), np.array(0.0)).tolist() == [0, 1]


# Which texts give directions


def test_directions_come_from_train_or_from_the_other_half(trained: LoadedModel, tmp_path: Path) -> None:
    named = held_out("bistro:test", None, Columns(), 2000)
    assert (str(named.directions), str(named.counted), named.which) == ("bistro:train", "bistro:test", "bistro:train")
    corpus = labelled(60, 1)
    halves = held_out(corpus, None, Columns(), 2000)
    one, other = ([e.text for e in side] for side in (halves.directions, halves.counted))
    assert not set(one) & set(other)
    assert sorted(one + other) == sorted(e.text for e in corpus)
    assert len(one) > 15
    assert len(other) > 15
    assert halves.which == "the half of texts-1, by hash"
    assert str(held_out("bistro:train", None, Columns(), 2000).which) == "the half of bistro:train, by hash"
    folder = tmp_path / "reviews"
    folder.mkdir()
    for split in ("train", "test"):
        (folder / f"{split}.csv").write_text("text,label\nfine soup,positive\nbad soup,negative\n", encoding="utf-8")
    beside = train_beside(f"{folder}:test")
    assert beside is not None
    assert str(beside) == "reviews:train"
    assert train_beside(f"{folder}:train") is None
    assert train_beside(folder / "test.csv") is None
    assert train_beside("a text of words") is None


def test_texts_whose_class_gives_no_direction_are_left_out() -> None:
    model, counted = random_model("bert"), labelled(40, 2)
    given = Corpus.of([example for example in labelled(60, 1) if example.label != "a"], "given")
    effects = cs.steer(model, counted, directions=given, layer=2, resamples=0)
    batcher = model.batcher(counted)
    answers = model.answer(batcher.batch(list(counted))).argmax(-1)
    left = int((answers == 0).sum())
    assert 0 < left < 40
    assert f"{left} texts are left out: the model predicts a class for them that gives no direction" in effects.remarks
    assert set(effects["steering"]["to"].dropna()) == {"b", "c"}
    assert effects["steering"]["n"].max() == 40 - left
    alike = Corpus.of([example for example, answer in zip(counted, answers.tolist(), strict=True) if answer == 0], "alike")
    with pytest.raises(CorpusError, match="the model predicts a class for each text of alike that gives no direction"):
        cs.steer(model, alike, directions=given, layer=2)


def test_texts_that_give_directions_are_not_counted() -> None:
    model, given = random_model("bert"), labelled(30, 1)
    counted = Corpus.of([*given.first(5), *labelled(20, 2)], "both")
    effects = cs.steer(model, counted, directions=given, layer=2, resamples=0)
    assert effects.provenance["seen"]["examples"] == 20
    assert effects.provenance["seen"]["truncated"] == 0
    cut = cs.steer(model, counted, directions=given, layer=2, resamples=0, max_length=4).provenance["seen"]
    assert 0 < cut["truncated"] <= cut["examples"] == 20
    assert "5 texts give directions too, and are not counted" in effects.remarks
    assert effects.provenance["options"]["directions"]["of"] == "texts-1"


# The command, and bad input


def test_the_command_prints_writes_draws_and_takes_json(
    trained: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["steer", trained.name, "bistro:test", "--limit", "60", "-o", str(out), "--quiet"]) == 0
    printed = capsys.readouterr()
    assert "(from bistro:train)" in printed.out
    assert re.search(r"^ +1 +50% +\d+°  [\d.]+% \[[\d.]+%, [\d.]+%\]  ", printed.out, re.MULTILINE)
    assert re.search(r"^ +2 +100% +\d+°  100.0% \[94.0%, 100.0%\]\*", printed.out, re.MULTILINE)
    assert "60 examples; tables and provenance written to" in printed.out
    assert {path.name for path in out.glob("*.csv")} == {"steering.csv", "steering.excess.csv"}
    assert main(["steer", trained.name, "bistro:test", "--limit", "9", "--layer", "1", "--angle", "15", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["examples"] == 9
    rows = found["tables"]["steering"]
    assert {row["layer"] for row in rows} == {1}
    assert {row["angle"] for row in rows if row["by"] == "angle"} == {0, 15}
    assert main(["report", str(out), "-o", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "What causes the answer?" in page
    assert "How often the answer follows the direction of another class" in page


def test_the_figure_draws_the_rows_that_are_judged(trained: LoadedModel) -> None:
    effects = cs.steer(trained, "bistro:test", limit=40, resamples=0)
    drawn = effects.plot("steering").to_dict()
    rows = next(iter(drawn["datasets"].values()))
    assert {row["panel"] for row in rows} == {"layer 1"}
    lines = {"towards the class", "random direction", "shuffled labels", "lengthened by as much"}
    assert {row["line"] for row in rows} == lines
    shown = {round(row["share"], 2): row["flipped"] for row in rows if row["line"] == "towards the class"}
    assert shown == pytest.approx(whole(effects, "share", 1).to_dict(), rel=1e-4)
    assert "Layer 2 is left out, as the outcome is known before." in drawn["usermeta"]["notes"]
    with pytest.raises(MeasureError, match="there is nothing to draw steering from"):
        cs.steer(trained, "bistro:test", limit=9, layer=2, resamples=0).plot("steering")


def test_bad_input_is_refused_in_one_line(trained: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: object) -> str:
        return refusal(capsys, "steer", *arguments)

    model = trained.name
    assert f"{model} has no layer 3 to steer; give one from 0 to 2" in said(model, "bistro:test", "--layer", "3")
    same = f"the vectors of all texts are the same in layer 0 of {model}, so classes have no direction there; give a higher layer"
    assert same in said(model, "bistro:test", "--layer", "0")
    one = tmp_path / "one.csv"
    one.write_text("text,label\n" + "".join(f"soup number {n},positive\n" for n in range(20)), encoding="utf-8")
    message = said(model, "bistro:test", "--directions", one)
    assert "one has 1 class with 2 texts" not in message
    assert "gives directions of classes, and has 1 class with 2 texts; give --directions texts of at least two classes" in message
    few = tmp_path / "few.csv"
    few.write_text("text,label\nfine soup,positive\nbad soup,negative\n", encoding="utf-8")
    assert "has 0 classes with 2 texts; give --directions" in said(model, "bistro:test", "--directions", few)
    plain = tmp_path / "plain.csv"
    plain.write_text("text\nfine soup\nbad soup\n", encoding="utf-8")
    assert "has no labelled text; give --directions" in said(model, "bistro:test", "--directions", plain)
    body = tmp_path / "body"
    tiny("bert").bert.save_pretrained(body)
    trained.tokenizer.save_pretrained(body)
    message = said(body, "bistro:test")
    assert "is no classifier, and steering is of a class; give a model that was trained on labels" in message
    mean = tmp_path / "mean"
    cs.train("bistro", mean, preset="tp9-base", epochs=1)
    capsys.readouterr()
    message = said(mean, "bistro:test")
    assert "classifies from several tokens, and steering turns one vector; give a model that reads one, as [CLS]" in message
    with pytest.raises(SystemExit) as stopped:
        main(["steer", model, "bistro:test", "--angle", "200"])
    assert stopped.value.code == 2
    assert "argument --angle: '200' is not an angle in degrees above 0, at most 180" in capsys.readouterr().err
    assert "the layer '1' is given twice; give it once" in said(model, "bistro:test", "--layer", "1", "--layer", "1")
    with pytest.raises(MeasureError, match="angles=nan is not an angle in degrees above 0"):
        cs.steer(trained, "bistro:test", angles=math.nan)
    with pytest.raises(MeasureError, match="layer=-1 is not a whole number from 0"):
        cs.steer(trained, "bistro:test", layer=-1)
    with pytest.raises(MeasureError, match="angles='9' is no number; give one, or several"):
        cs.steer(trained, "bistro:test", angles="9")
    with pytest.raises(CorpusError, match="has no texts to steer; give another corpus"):
        cs.steer(
            trained,
            Corpus.of([Example("only this soup", "positive")] * 3),
            directions=Corpus.of([Example("only this soup", "positive")] * 2 + [Example("bad", "negative")] * 2),
        )
