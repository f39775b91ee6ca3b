"""What a report says is true: every number is in the tables, every mark is drawn, every claim has its controls, in every form."""

import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import conoscope.reporting.findings
from conoscope.capture.loading import LoadedModel, load_model
from conoscope.corpora import Corpus, load_corpus
from conoscope.explaining import plausibility
from conoscope.figures import FIGURES, spec
from conoscope.measures.base import QUANTILES
from conoscope.measures.class_maps import THETA
from conoscope.measuring.pipeline import Options, measure
from conoscope.models.family import SelfAttentionForSequenceClassification, preset
from conoscope.reporting.findings import Claim, Finding, find
from conoscope.reporting.findings import cones as cone_findings
from conoscope.reporting.gathering import JoinedTables, Run, gather
from conoscope.reporting.notebook import shown
from conoscope.reporting.opening import facts, opening, title_of
from truth import REFERENCES, Allowed, faults_of, marks_not_drawn, wrong_numbers

TEXTS = 18
VECTORS = {"first": "the first token", "last": "the last token", "mean": "the mean of the token vectors"}
DEGREES = (90, 180)
"""Angles at which two directions are orthogonal, and opposite."""
OF_CAPTIONS = {
    "effective-rank": (cone_findings.ENOUGH,),
    "class-cones": tuple(100 * level for level in QUANTILES.values()),
    "class-maps": (THETA,),
    "class-cosines": DEGREES,
    "class-cosines-by-layer": DEGREES,
}
"""Numbers of captions that are constants of other modules than the figure's own."""
SCALE = {0.0, 1.0, -1.0, 0.5, 95.0}
"""Ends and middles of scales, and the percentage of an interval."""


def model_of(pure: LoadedModel, labels: Sequence[str], layers: int) -> LoadedModel:
    torch.manual_seed(1)
    size = {"vocab_size": len(pure.tokenizer), "hidden_size": 16, "num_hidden_layers": layers, "num_attention_heads": 2}
    config = preset("pure-attention", **size)
    config.id2label = dict(enumerate(labels))
    return load_model(SelfAttentionForSequenceClassification(config).double(), pure.tokenizer)


@pytest.fixture(scope="module")
def sources(pure: LoadedModel, minilm: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What was measured, by run: a classifier with its judged maps, an encoder without, one of many classes, one of one layer."""
    folder = tmp_path_factory.mktemp("truth")
    texts = Corpus.of(load_corpus("bistro:test").first(TEXTS), "bistro")
    names = ("low", "mid", "high", "top", "more", "most")
    many = [replace(text, label=names[place % 6]) for place, text in enumerate(texts)]
    every = {
        "classifier": measure(pure, texts, options=Options(max_length=12), out=folder / "classifier"),
        "encoder": measure(minilm, texts.first(8), options=Options(max_length=16)),
        "several": measure(model_of(pure, names, 2), Corpus.of(many, "many")),
        "shallow": measure(model_of(pure, ("negative", "positive"), 1), texts),
    }
    plausibility(pure, texts, ["attention", "norms"], out=folder / "judged")
    return {name: [result] for name, result in every.items()} | {"classifier": [folder / "classifier", folder / "judged"]}


@dataclass(frozen=True)
class Reported:
    """Runs with all that a report says of them."""

    runs: list[Run]
    tables: Mapping[str, pd.DataFrame]
    findings: list[Finding]

    @property
    def names(self) -> list[str]:
        """The runs, where there are several."""
        found = list(dict.fromkeys(run.name for run in self.runs))
        return found if len(found) > 1 else []


CASES = [("classifier",), ("encoder",), ("several",), ("shallow",), ("classifier", "encoder"), ("encoder", "shallow", "several")]


@pytest.fixture(scope="module", params=CASES, ids="+".join)
def reported(request: pytest.FixtureRequest, sources: dict[str, list[Any]]) -> Reported:
    parts = [gather({name: source}) for name in request.param for source in sources[name]]
    runs = [run for part in parts for run in part]
    tables = JoinedTables(runs)
    return Reported(runs, tables, every_finding(tables))


def every_finding(tables: Mapping[str, pd.DataFrame]) -> list[Finding]:
    """All that can be found, not the first five alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conoscope.reporting.findings, "MOST", 99)
        return find(tables)


ROWS: dict[int, tuple[pd.DataFrame, list[dict[str, Any]]]] = {}


def rows_of(tables: Mapping[str, pd.DataFrame], name: str) -> list[dict[str, Any]]:
    """The rows of a table, made once: many texts are held against the same table."""
    frame = tables[name]
    if id(frame) not in ROWS:
        ROWS[id(frame)] = (frame, frame.to_dict("records"))
    return ROWS[id(frame)][1]


def faults(tables: Mapping[str, pd.DataFrame], names: Sequence[str], findings: Sequence[Finding]) -> list[str]:
    rows = {name: rows_of(tables, name) for name in ("runs", *(name for name, _ in REFERENCES.values())) if name in tables}
    return [fault for found in findings for fault in faults_of(found.text, found.figure, rows, names)]


def test_every_number_of_a_finding_is_in_the_tables_and_every_control_in_the_finding(reported: Reported) -> None:
    assert len(reported.findings) >= 7
    assert faults(reported.tables, reported.names, reported.findings) == []


def test_both_forms_of_a_claim_have_the_same_evidence(reported: Reported) -> None:
    for found in reported.findings:
        for run, claim in found.claims.items():
            assert claim.evidence, f"{found.figure} has no n and no control"
            assert claim.evidence in claim.alone()
            assert claim.evidence in claim.beside(run)
            assert claim.evidence in found.text


def text_of(markup: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", markup)).replace("\u00a0", " ")


def test_the_page_and_the_notebook_say_the_findings_and_no_other_numbers(
    reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conoscope.reporting.notebook.SHOWN", ())
    findings = find(reported.tables)
    header = opening(reported.runs, findings, (), title_of(reported.runs))
    items = [text_of(item) for item in re.findall(r"<li>(.*?)</li>", header, re.DOTALL)]
    assert items == [found.text for found in findings]
    if not reported.names:
        run = reported.runs[0]
        notebook = text_of(shown(run.tables, run.provenance))
        assert all(found.text in notebook for found in find({**run.tables, "runs": reported.tables["runs"].assign(run="")}))
        for name in ("Accuracy", "Texts cut"):
            assert facts([run])[name] in notebook


def header_of(run: Run) -> dict[str, Allowed]:
    """The numbers that each fact of the first screen may and must hold, from the provenance and the texts themselves."""
    seen, options, model = run.provenance["seen"], run.provenance["options"], run.provenance["model"]
    cut = Allowed(plain=[seen["examples"]], required=["none of" if not seen["truncated"] else f"{seen['truncated']} of"])
    if seen["truncated"]:
        cut.plain += [seen["truncated"], options["max_length"]]
        cut.required.append(f"at {options['max_length']} tokens")
    accuracy = Allowed()
    if model["labels"]:
        accuracy.share("", seen["correct"] / seen["labelled"])
        accuracy.count(seen["labelled"], " labelled texts")
        accuracy.share("largest class ", max(seen["classes"].values()) / sum(seen["classes"].values()))
    corpus, pool = run.provenance["corpus"], run.provenance["pool"]
    vector = "what the classifier reads" if pool["by"] == "the classifier" else VECTORS[pool["vector"]]
    by = f"({pool['token'] if pool['by'] == 'the classifier' else pool['by']})"
    return {
        "Texts": Allowed(plain=[seen["examples"]], required=[str(seen["examples"])]),
        "Texts cut": cut,
        "Accuracy": accuracy,
        "Vector of a text": Allowed(required=[vector, by]),
        "Corpus": Allowed(required=[corpus["name"]]),
        "Type": Allowed(required=[model["type"]]),
    }


def rows_of_the_header(header: str) -> dict[str, dict[str, str]]:
    """What the table of the first screen says of each run, by the name of the column."""
    columns = [text_of(cell) for cell in re.findall(r"<th[ >].*?</th>", header)]
    rows = [
        [text_of(cell) for cell in re.findall(r"<td[ >].*?</td>", row)] for row in re.findall(r"<tr>.*?</tr>", header, re.DOTALL)
    ]
    named = [dict(zip(columns, cells, strict=True)) for cells in rows if cells]
    return {row["Model"]: {column: cell for column, cell in row.items() if cell} for row in named}


def test_every_number_of_the_header_is_in_the_provenance(reported: Reported, sources: dict[str, list[Any]]) -> None:
    header = opening(reported.runs, (), (), title_of(reported.runs))
    for name in dict.fromkeys(run.name for run in reported.runs):
        runs = [run for run in reported.runs if run.name == name]
        told = facts(runs)
        for field, allowed in header_of(runs[0]).items():
            if field in ("Texts", "Texts cut", "Accuracy"):
                assert wrong_numbers(told[field], allowed) == []
            assert all(piece in told[field] for piece in allowed.required), told[field]
            assert told[field] in text_of(header)
        if reported.names:
            assert rows_of_the_header(header)[name] == {field: fact for field, fact in told.items() if fact}
        layers, heads = re.findall(r"\d+", told["Layers × heads"])
        assert (int(layers), int(heads)) == {"classifier": (3, 2), "encoder": (6, 12), "several": (2, 2), "shallow": (1, 2)}[name]
        many = re.search(r"\((\d+) in all\)", told["Classes"])
        assert (int(many.group(1)) if many else None) == (6 if name == "several" else None)
    assert re.findall(r"\d+", title_of(reported.runs)) == ([str(len(reported.names))] if reported.names else [])


def test_the_accuracy_and_the_classes_are_those_of_the_texts(sources: dict[str, list[Any]]) -> None:
    (result,) = sources["several"]
    assert result.provenance["seen"]["classes"] == Counter(
        dict.fromkeys(("low", "mid", "high", "top", "more", "most"), TEXTS // 6)
    )
    nearest = result["class_cones.nearest"]
    rows = nearest[(nearest["site"] == "hidden") & (nearest["control"] == "none") & (nearest["representative"] == "mean")]
    assert rows["model"].iloc[-1] == pytest.approx(result.provenance["seen"]["correct"] / TEXTS)
    assert rows["chance"].iloc[-1] == pytest.approx(1 / 6)


def constants_of(value: Any) -> set[float]:
    """The numbers that a constant holds."""
    if isinstance(value, bool | str):
        return set()
    if isinstance(value, int | float):
        return {float(value)}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list | set | frozenset) else ()
    return {number for one in inner for number in constants_of(one)}


def caption_faults(name: str, caption: str, chart: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Numbers of a caption that are no constant of its figure and, in its notes, count nothing in its tables; marks not drawn."""
    figure = FIGURES[name]
    module = inspect.getmodule(inspect.unwrap(figure.draw))
    constants = [value for key, value in vars(module).items() if key.isupper()]
    # What is written beforehand knows no table.
    fixed = SCALE | set(map(float, OF_CAPTIONS[name] if name in OF_CAPTIONS else constants_of(tuple(constants))))
    known = set(fixed)
    for need in figure.needs:
        frame = next(tables[found] for found in tables if found.partition(":")[0] == need)
        known |= {float(frame[column].nunique()) for column in frame} | {float(len(frame))}
        known |= {float(layer) for layer in frame.get("layer", pd.Series(dtype=float)).dropna()}
    # How many of them are drawn is what the chart holds.
    known |= {float(len(rows)) for rows in chart.get("datasets", {}).values()}
    notes = " ".join(chart.get("usermeta", {}).get("notes", ()))
    beforehand = caption.removesuffix(notes)
    wrong = [number for number in numbers_in(beforehand) if number not in fixed]
    wrong += [number for number in numbers_in(notes) if number not in known] if caption.endswith(notes) else []
    return [f"{number:g}" for number in wrong] + marks_not_drawn(caption, chart)


def numbers_in(caption: str) -> list[float]:
    found = re.findall(r"(?<![\w.])(?:-?\d[\d,]*(?:\.\d+)?|\.\d+)(?!\w)", caption)
    return [float(number.replace(",", "")) for number in found]


def test_captions_hold_no_number_of_their_own_and_name_no_mark_that_is_not_drawn(reported: Reported) -> None:
    drawn = {name: chart for name, one in FIGURES.items() if one.fits(reported.tables) and (chart := one.draw(reported.tables))}
    assert len(drawn) > 15
    found = {}
    for name, chart in drawn.items():
        written = spec(chart)
        caption = FIGURES[name].caption_of(written)
        found[name] = caption_faults(name, caption, written, reported.tables)
        if FIGURES[name].question == "classes":
            vectors = set(reported.tables["runs"]["vector"].dropna())
            found[name] += [vector for vector in vectors if vector not in caption]
            found[name] += (
                ["the classifier"] if "classifier" in caption and not any("classifier" in one for one in vectors) else []
            )
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_a_number_that_is_off_by_one_in_its_last_digit_is_caught(reported: Reported) -> None:
    for found in reported.findings:
        numbers = [match for match in re.finditer(r"\d+\.\d+", found.text) if "chance 0.5" not in found.text[match.start() - 7 :]]
        for match in numbers:
            digits = len(match.group().partition(".")[2])
            off = f"{float(match.group()) + 10**-digits:.{digits}f}"
            text = found.text[: match.start()] + off + found.text[match.end() :]
            assert faults(reported.tables, reported.names, [replace(found, text=text)]), f"{match.group()} as {off} in {text}"


def test_a_control_that_is_left_out_is_caught(reported: Reported) -> None:
    for found in reported.findings:
        for claim in found.claims.values():
            for control in claim.controls:
                text = found.text.replace(str(control), "")
                if "its own narrowest" not in control.name:
                    assert faults(reported.tables, reported.names, [replace(found, text=text)]), f"{control} left out of {text}"


def test_a_claim_that_loses_its_controls_is_caught_in_every_form(reported: Reported, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Claim, "evidence", property(lambda claim: f" ({', '.join(claim.of)})" if claim.of else ""))
    wanted = {found.figure for found in reported.findings if any(claim.controls for claim in found.claims.values())}
    assert len(wanted) > 3
    for found in every_finding(reported.tables):
        assert bool(faults(reported.tables, reported.names, [found])) == (found.figure in wanted)


def test_a_mark_or_a_number_that_is_not_drawn_is_caught(reported: Reported) -> None:
    chart = spec(FIGURES["sim"].draw(reported.tables))
    for said in ("Boxes are halves.", "Cells are heads.", "Hollow marks are wrong answers."):
        assert caption_faults("sim", said, chart, reported.tables)
    nearest = spec(FIGURES["nearest-cone"].draw(reported.tables))
    assert caption_faults("nearest-cone", "The triangle is the model.", nearest, reported.tables) == ["triangle"]
    answers = reported.tables["class_cones.nearest"]["model"].notna().any()
    assert caption_faults("nearest-cone", "The green stroke is the model.", nearest, reported.tables) == (
        [] if answers else ["green"]
    )
    assert caption_faults("sim", "At most 601 lines are drawn.", chart, reported.tables) == ["601"]
    assert caption_faults("effective-rank", "Fewer than 9 times the width.", chart, {"effective_rank": pd.DataFrame()}) == ["9"]


SHARE = st.floats(0, 1, width=32)


@st.composite
def nearest_tables(draw: st.DrawFn) -> pd.DataFrame:
    """Tables of the nearest class direction: any numbers, with or without each control, of one run or of two."""
    rows = []
    permuted = draw(st.booleans())
    for run in draw(st.sampled_from([[""], ["before", "after"]])):
        answers = draw(st.booleans())
        shared = {
            "run": run,
            "site": "hidden",
            "layer": draw(st.integers(1, 12)),
            "chance": draw(SHARE),
            "n": draw(st.integers(1, 5000)),
        }
        shared |= {name: draw(SHARE) if answers else float("nan") for name in ("model", "agreement")}
        kinds = draw(st.lists(st.sampled_from(["held_out", "mean", "medoid", "first"]), min_size=1, unique=True))
        rows += [{**shared, "control": "none", "representative": kind, "value": draw(SHARE)} for kind in kinds]
        if draw(st.booleans()):
            rows.append({**shared, "control": "norm", "representative": "mean", "value": draw(SHARE)})
        if draw(st.booleans()):
            more = {name: draw(SHARE) for name in ("low", "high", "observed")} | {"permutations": 200}
            more |= {"p": draw(st.integers(1, 201)) / 201}
            shuffled = {**shared, "control": "shuffled", "representative": "held_out", "value": draw(SHARE)}
            rows.append({**shuffled, **(more if permuted else {})})
    return pd.DataFrame(rows)


@st.composite
def sim_tables(draw: st.DrawFn) -> pd.DataFrame:
    """Tables of cones: any sites and layers, whole or by head, with or without a baseline."""
    rows = []
    cosine = st.floats(-1, 1, width=32)
    for run in draw(st.sampled_from([[""], ["before", "after"]])):
        places = st.tuples(st.sampled_from(["hidden", "output", "query", "key", "value", "context"]), st.integers(0, 4))
        for site, layer in draw(st.lists(places, min_size=1, max_size=8, unique=True)):
            base = draw(st.one_of(cosine, st.just(float("nan"))))
            for head in draw(st.sampled_from([[None], [1, 2], [None, 1, 2]])):
                row = {"run": run, "site": site, "layer": layer, "head": head, "value": draw(cosine), "baseline": base, "n": 7}
                rows.append(row)
    return pd.DataFrame(rows).astype({"layer": "Int64", "head": "Int64"})


@st.composite
def plausibility_tables(draw: st.DrawFn) -> pd.DataFrame:
    """Tables of judged maps: any numbers with their intervals, with or without the random map."""
    rows = []
    for run in draw(st.sampled_from([[""], ["before", "after"]])):
        maps = draw(st.lists(st.sampled_from(["attention", "norms", "rollout"]), min_size=1, unique=True))
        for name in [*maps, *draw(st.sampled_from([[], ["random"]]))]:
            low, value, high = sorted(draw(st.tuples(SHARE, SHARE, SHARE)))
            judged = {"metric": "auroc", "average": "micro", "map": name, "n": 40}
            rows.append({"run": run, **judged, "low": low, "value": value, "high": high})
    return pd.DataFrame(rows)


@settings(max_examples=90, deadline=None)
@given(
    st.one_of(
        nearest_tables().map(lambda frame: {"class_cones.nearest": frame}),
        sim_tables().map(lambda frame: {"sim": frame}),
        plausibility_tables().map(lambda frame: {"plausibility": frame}),
    )
)
def test_findings_of_any_table_hold_its_numbers_and_its_controls(tables: dict[str, pd.DataFrame]) -> None:
    names = [name for name in next(iter(tables.values()))["run"].unique() if name]
    found = find(tables)
    assert len(found) == 1
    assert faults(tables, names, found) == []


def test_texts_of_a_result_are_named_where_a_model_has_no_classifier(sources: dict[str, list[Any]]) -> None:
    (encoder,) = sources["encoder"]
    told = " ".join(found.text for found in every_finding(JoinedTables(gather([encoder]))))
    assert "what the classifier reads" not in told
    assert facts(gather([encoder]))["Accuracy"] == ""


def test_an_older_result_tells_its_accuracy_by_the_sampled_examples(sources: dict[str, list[Any]], tmp_path: Path) -> None:
    run = gather([sources["shallow"][0]])[0]
    seen = {name: run.provenance["seen"][name] for name in ("examples", "digest", "truncated")}
    old = replace(run, provenance={**run.provenance, "seen": seen})
    new, before = (facts([one])["Accuracy"] for one in (run, old))
    assert before == new.replace("labelled", "sampled")
