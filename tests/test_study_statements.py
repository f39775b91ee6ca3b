"""What the sources say: each statement has a claim that tests it or a reason why none can, and the pages are what records say."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import refusal
from conoscope.cli import main
from conoscope.common.errors import OutputError
from conoscope.studies import STUDIES
from conoscope.studies.base import Claim, Condition, Study
from conoscope.studies.claims_page import BEGIN, END, claims_page, claims_text, summary, with_summary, write_claims
from conoscope.studies.earlier import is_earlier
from conoscope.studies.made import setting_of
from conoscope.studies.records import NEEDED, read_record
from conoscope.studies.rejudging import Record
from conoscope.studies.reproducing import Reproducing, reproduce
from conoscope.studies.standing import (
    AGAIN,
    ASKED,
    FALLS,
    NOT_RUN,
    OPEN,
    PARTLY,
    STANDINGS,
    STANDS,
    UNTESTED,
    outcome,
    records_in,
    standing,
    standing_of,
    unstated,
)
from conoscope.studies.statements import BEYOND, SOURCES, STATEMENTS, Statement
from conoscope.training.settings import Training

ROOT = Path(__file__).parents[1]
PAIRS = {(study.name, claim.name) for study in STUDIES.values() for claim in study.claims}


def told(one: Statement) -> str:
    return f"{one.source}, {one.place}: {one.says}"


@pytest.fixture(scope="module")
def records() -> dict[str, Record]:
    return records_in(ROOT / "results")


@pytest.mark.parametrize("one", STATEMENTS, ids=told)
def test_a_statement_has_claims_or_a_reason_why_nothing_tests_it(one: Statement) -> None:
    assert bool(one.claims) != bool(one.untestable)
    assert set(one.claims) <= PAIRS, sorted(set(one.claims) - PAIRS)
    assert len(set(one.claims)) == len(one.claims)
    assert one.source in SOURCES
    assert one.place
    assert one.says[-1] in ".?"
    assert not one.untestable.endswith(".")
    assert not one.cases or one.claims


def test_no_statement_is_there_twice_and_every_source_has_some() -> None:
    assert len({told(one) for one in STATEMENTS}) == len(STATEMENTS)
    assert list(dict.fromkeys(one.source for one in STATEMENTS)) == list(SOURCES)


def test_the_readme_counts_the_statements() -> None:
    assert f"[{len(STATEMENTS)} statements](docs/studies/claims.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_claim_from_elsewhere_exists_and_no_statement_names_it() -> None:
    assert set(BEYOND) <= PAIRS, sorted(set(BEYOND) - PAIRS)
    assert set(BEYOND) <= set(unstated())


@pytest.mark.parametrize("one", [one for one in STATEMENTS if one.cases], ids=told)
def test_the_cases_of_a_statement_are_among_those_of_its_claims(one: Statement, records: dict[str, Record]) -> None:
    for study, claim in one.claims:
        if (whole := outcome(study, claim, records)).answers:
            part = outcome(study, claim, records, one.cases)
            assert 0 < len(part.answers) < len(whole.answers), claim


def test_the_pages_are_what_the_records_say(records: dict[str, Record]) -> None:
    folder = ROOT / "docs" / "studies"
    assert (folder / "claims.md").read_text(encoding="utf-8") == claims_page(records), "conoscope list claims --page"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert with_summary(readme, records) == readme, "conoscope list claims --page"


def test_the_page_names_every_statement_and_every_claim_and_marks_those_in_no_source(records: dict[str, Record]) -> None:
    page = claims_page(records)
    stated, apart = page.split("## Claims that are in no source")
    for one in STATEMENTS:
        assert f"| {one.place}{f'<br>({one.figures})' if one.figures else ''} | {one.says} |" in stated
    assert all(one.untestable in stated for one in STATEMENTS)
    assert {pair for pair in PAIRS if f"{pair[0]}: {pair[1]}" in apart.replace(f"[{pair[0]}]({pair[0]}.md)", pair[0])} >= set(
        unstated()
    )
    assert {pair for one in STATEMENTS for pair in one.claims} | set(unstated()) == PAIRS


@pytest.mark.parametrize("one", STATEMENTS, ids=told)
def test_a_statement_says_no_figure_of_the_source_since_no_claim_tests_figures(one: Statement) -> None:
    assert not one.claims or not re.search(r"\.\d|\bhead \d", one.says)
    assert not one.figures.endswith(".")


def test_what_a_statement_says_of_a_level_has_a_claim_of_a_level_beside_that_of_a_sign() -> None:
    found = {one.says: {claim for _, claim in one.claims} for one in STATEMENTS}
    assert found["Keys and values are anisotropic too, not embeddings alone."] == {"anisotropic"}
    assert found["The cone stays when a penalty changes how attention is distributed."] == {"stays"}
    assert (
        found["With one layer anisotropy is weak."] == found["Models of few layers are not anisotropic."] == {"weak", "shallow"}
    )
    assert found["The rarer a token, the longer its f(x): a strong correlation."] == {"frequency", "strong"}
    assert found["In the last of five layers the cones of keys and values are very narrow."] == {"very-narrow"}
    (keys,) = (claims for says, claims in found.items() if "keys of e-SNLI spread" in says)
    assert keys == {"keys-spread"}
    (embeddings,) = (claims for says, claims in found.items() if says.startswith("Embeddings are anisotropic,"))
    assert {"embeddings", "apart", "nearest", "hierarchical"} <= embeddings
    assert {("fosse-table-1", "learnt"), ("many-classes", "even")} <= set(unstated())


def test_figures_stand_below_the_place_and_not_in_the_summary(
    made_up: dict[str, Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Statement("000", "table", "It is so.", (("made-up", "one"),), figures=".9 to .1")
    monkeypatch.setattr("conoscope.studies.claims_page.STATEMENTS", (one,))
    assert "| table<br>(.9 to .1) | It is so. |" in claims_page(made_up)
    assert "- It is so. *000: table.* " in summary(made_up)
    assert "000, table (.9 to .1)\n  It is so." in claims_text(made_up)


@pytest.mark.parametrize(
    ("places", "joined"),
    [
        (("here",), "here"),
        (("here, first point",), "here, first point"),
        (("here", "here"), "here"),
        (("here", "there, a"), "here and there, a"),
        (("here", "here, summary"), "here (and summary)"),
        (("here, first, left", "there", "here, second", "here, second"), "here (first, left; second) and there"),
    ],
)
def test_places_of_statements_told_together_are_there_once(
    places: Sequence[str], joined: str, made_up: dict[str, Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    same = tuple(Statement("000", place, f"It is so, {number}.", (("made-up", "one"),)) for number, place in enumerate(places))
    monkeypatch.setattr("conoscope.studies.claims_page.STATEMENTS", same)
    assert f"- It is so, 0. *000: {joined}.* " in summary(made_up)


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        (["yes"], STANDS),
        (["yes", "yes"], STANDS),
        (["yes", "no"], PARTLY),
        (["yes", "unclear"], PARTLY),
        (["no", "no"], FALLS),
        (["no", "unclear"], OPEN),
        (["unclear"], OPEN),
        (["too few seeds"], OPEN),
        (["no", "too few seeds"], FALLS),
        (["not judged", "no"], FALLS),
        (["not judged"], OPEN),
        (["yes", "too few seeds"], PARTLY),
    ],
)
def test_a_statement_stands_where_all_cases_hold_and_falls_where_none_may(answers: Sequence[str], found: str) -> None:
    assert standing_of(answers) == found
    assert found in STANDINGS


def judged(name: str, statement: str, cases: dict[str, str], bound: float = 0.0) -> dict[str, Any]:
    found = [{"case": case, "answer": answer, "seeds": 5} for case, answer in cases.items()]
    return {"name": name, "statement": statement, "bound": bound, "cases": found}


def record(*claims: dict[str, Any], quick: bool = False) -> Record:
    lists: dict[str, Any] = {name: [] for name in ("published", "means", "runs", "failed", "differs", "devices")}
    return {**dict.fromkeys(NEEDED), **lists, "study": "made-up", "claims": list(claims), "seeds": [0], "quick": quick}


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> dict[str, Record]:
    """A study of two claims, and its record."""
    claims = (Claim("one", "One holds.", lambda rows: rows), Claim("two", "Two | holds.", lambda rows: rows, 0.5))
    study = Study("made-up", "Made up", "nowhere", (), lambda made: (), claims=claims)
    monkeypatch.setitem(STUDIES, "made-up", study)
    one = judged("one", "One holds.", {"a, left": "yes", "b, left": "yes", "b, right": "no"})
    return {"made-up": {**record(one, judged("two", "Two | holds.", {"a": "no"}, 0.5)), "settings": []}}


def of(*claims: str, says: str = "It is so.", cases: str = "") -> Statement:
    return Statement("000", "here", says, tuple(("made-up", claim) for claim in claims), cases=cases)


def test_a_statement_is_judged_in_its_cases_alone(made_up: dict[str, Record]) -> None:
    assert standing(of("one"), made_up) == PARTLY
    assert standing(of("one", cases="left"), made_up) == STANDS
    assert standing(of("one", cases="right"), made_up) == FALLS
    assert standing(of("two"), made_up) == FALLS
    assert standing(of("one", "two", cases="a"), made_up) == PARTLY


def test_what_a_record_does_not_have_is_not_run_yet(made_up: dict[str, Record]) -> None:
    assert standing(of("one"), {}) == NOT_RUN
    assert standing(of("one", cases="elsewhere"), made_up) == NOT_RUN
    assert outcome("made-up", "one", {}).verdict == NOT_RUN
    without = {"made-up": {**record(*made_up["made-up"]["claims"][:1]), "settings": []}}
    assert standing(of("one", "two"), without) == NOT_RUN


def test_verdicts_of_an_earlier_version_decide_nothing(made_up: dict[str, Record]) -> None:
    earlier = {"made-up": {name: value for name, value in made_up["made-up"].items() if name != "settings"}}
    assert is_earlier(earlier["made-up"])
    assert not is_earlier(made_up["made-up"])
    for statement in (of("one"), of("two"), of("one", cases="left"), of("one", says="Is it so?")):
        assert standing(statement, earlier) == AGAIN
    assert standing(of("one", cases="elsewhere"), earlier) == NOT_RUN
    assert "†" in summary(earlier)


def test_a_question_is_asked_and_a_statement_without_claims_is_not_tested(made_up: dict[str, Record]) -> None:
    assert standing(of("one", says="Is it so?"), made_up) == ASKED
    assert standing(Statement("000", "here", "It is so.", untestable="why"), made_up) == UNTESTED


def test_a_verdict_names_cases_and_seeds(made_up: dict[str, Record]) -> None:
    assert outcome("made-up", "one", made_up).verdict.startswith("holds in 2 of 3 cases (5 seeds")
    assert outcome("made-up", "one", made_up, "left").verdict.startswith("holds (2 cases, 5 seeds")
    assert outcome("made-up", "two", made_up).verdict.startswith("does not hold (5 seeds")
    made_up["made-up"]["claims"][0]["cases"][0]["seeds"] = 4
    assert "4 to 5 seeds" in outcome("made-up", "one", made_up).verdict
    made_up["made-up"]["claims"][1]["cases"][0] |= {"answer": "not judged", "gated": 3}
    assert outcome("made-up", "two", made_up).verdict.startswith("not judged (5 seeds, up to 3 runs of a case below the gate")
    made_up["made-up"]["claims"][0]["cases"][2] |= {"answer": "not judged"}
    assert outcome("made-up", "one", made_up).verdict.startswith("holds in 2 of 3 cases, 1 not judged (4 to 5 seeds")


def test_claims_that_no_statement_names_are_ours_and_cells_do_not_break(made_up: dict[str, Record]) -> None:
    apart = claims_page(made_up).split("## Claims that are in no source")[1]
    assert "| [made-up](made-up.md): one | One holds. | ours | holds in 2 of 3 cases (5 seeds" in apart
    assert r"| Two \| holds. | ours |" in apart
    assert "made-up two: does not hold (5 seeds" in claims_text(made_up)


def test_without_records_nothing_is_linked_and_nothing_stands() -> None:
    page = claims_page({})
    assert "(fosse-table-1.md)" not in page
    assert {standing(one, {}) for one in STATEMENTS} == {NOT_RUN, UNTESTED}


def test_the_summary_is_written_between_its_markers_and_nowhere_else(tmp_path: Path, records: dict[str, Record]) -> None:
    page, beside = tmp_path / "new" / "claims.md", tmp_path / "new" / "README.md"
    assert write_claims(records, page) == [page]
    beside.write_text("mine\n", encoding="utf-8")
    assert write_claims(records, page) == [page]
    assert beside.read_text(encoding="utf-8") == "mine\n"
    beside.write_text(f"before\n{BEGIN}\nSTALE\n{END}\nafter\n", encoding="utf-8")
    assert write_claims(records, page) == [page, beside]
    written = beside.read_text(encoding="utf-8")
    assert written.startswith(f"before\n{BEGIN}\n\n| standing | statements |")
    assert written.endswith(f"\n{END}\nafter\n")
    assert "STALE" not in written
    write_claims(records, page)
    assert beside.read_text(encoding="utf-8") == written


def test_markers_that_do_not_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"{BEGIN}\nno end", encoding="utf-8")
    with pytest.raises(OutputError, match=f"README.md has no line {END!r} after its first marker; add it, or remove that marker"):
        write_claims({}, tmp_path / "claims.md")


def test_a_record_is_of_the_present_conditions_until_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(layers=1, vectors="glove")
    condition = Condition({"layers": 1}, "bistro", training)
    study = Study(
        "made-up", "Made up", "nowhere", (condition,), lambda made: (), claims=(Claim("one", "One.", lambda rows: rows),)
    )
    monkeypatch.setitem(STUDIES, "made-up", study)
    setting = setting_of(condition, None)
    now: Record = {**record(), "settings": [setting], "runs": [{"keys": {"layers": 1}, "seed": 0, "setting": 0}]}
    now = json.loads(json.dumps(now))
    assert not is_earlier(now)
    assert is_earlier(record())
    older = {name: value for name, value in setting["training"].items() if name != "lift"}
    assert not is_earlier({**now, "settings": [{**setting, "training": older}]})
    assert is_earlier({**now, "settings": [{**setting, "training": {**older, "lift": 300}}]})
    assert is_earlier({**now, "settings": [{**setting, "limit": 10}]})
    assert not is_earlier({**now, "settings": [{**setting, "limit": 10}], "limit": 10})
    assert is_earlier({**now, "study": "forgotten"})
    assert is_earlier({**now, "runs": [{"keys": {"layers": 2}, "seed": 0, "setting": 0}]})
    named = {**setting, "training": {**setting["training"], "vectors": "mine.txt"}}
    assert is_earlier({**now, "settings": [named]})
    assert not is_earlier({**now, "settings": [named], "vectors": "mine.txt"})
    for change in (replace(training, layers=2), replace(training, batches="shuffled")):
        monkeypatch.setitem(STUDIES, "made-up", replace(study, conditions=(replace(condition, training=change),)))
        assert is_earlier(now)
    monkeypatch.setitem(STUDIES, "made-up", study)
    assert " †" not in summary({"made-up": now})
    assert "present conditions: 1 runs, 1 seeds |" in summary({"made-up": now})
    left = [{"keys": {"layers": 1}, "seeds": [1, 2]}]
    assert "present conditions: 1 runs, 1 seeds, 2 runs left |" in summary({"made-up": {**now, "left": left}})
    assert "earlier version" in claims_page({"made-up": record(judged("one", "One.", {"a": "yes"}))})


def test_a_record_that_was_just_made_is_of_the_present_conditions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conditions = tuple(Condition({"layers": layers}, "bistro", Training(layers=layers, vectors="glove-50")) for layers in (1, 2))
    study = Study("made-up", "Made up", "nowhere", conditions, lambda made: [{"quantity": "one", "value": 1.0}], seeds=1)
    monkeypatch.setitem(STUDIES, "made-up", study)
    monkeypatch.setattr("conoscope.studies.reproducing.require_data", lambda condition, data_dir: None)
    reproduce("made-up", tmp_path, Reproducing(jobs=1))
    made = read_record(tmp_path / "record.json")
    assert not is_earlier(made)
    monkeypatch.setitem(STUDIES, "made-up", replace(study, conditions=conditions[:1]))
    assert is_earlier(made)


def test_records_of_the_quick_form_are_left_out(tmp_path: Path) -> None:
    for name, quick in (("one", False), ("two", True)):
        content = {**record(quick=quick), "study": name}
        (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    assert list(records_in(tmp_path)) == ["one"]


def test_claims_are_listed_with_the_verdicts_of_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "claims"]) == 0
    listed = capsys.readouterr().out
    assert all(one.says in listed for one in STATEMENTS)
    assert "fosse-table-2 sharper: not run yet" in listed
    page = tmp_path / "claims.md"
    assert main(["list", "claims", "--records", str(ROOT / "results"), "--page", str(page)]) == 0
    assert f"written: {page}\n" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8") == (ROOT / "docs" / "studies" / "claims.md").read_text(encoding="utf-8")


def test_options_of_claims_are_refused_elsewhere_and_so_is_a_folder_without_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--records does nothing for measures" in refusal(capsys, "list", "measures", "--records", tmp_path)
    assert "--page does nothing for studies" in refusal(capsys, "list", "studies", "--page", tmp_path / "x.md")
    assert "no records in" in refusal(capsys, "list", "claims", "--records", tmp_path)
    assert "give --page another file" in refusal(capsys, "list", "claims", "--page", tmp_path)


def test_a_model_that_is_not_the_sources_own_is_named(records: dict[str, Record]) -> None:
    other, same = outcome("kobayashi-norms", "short", records), outcome("fosse-table-1", "deeper", records)
    assert other.models == ("all-MiniLM-L6-v2",)
    assert "for all-MiniLM-L6-v2" in other.verdict
    assert same.models == ()
    assert "`short` holds for all-MiniLM-L6-v2" in summary(records)
    bert = {**records["kobayashi-norms"]}
    bert["runs"] = [{**run, "keys": {"model": "bert-base-uncased"}} for run in bert["runs"]]
    assert outcome("kobayashi-norms", "short", {"kobayashi-norms": bert}).models == ()
