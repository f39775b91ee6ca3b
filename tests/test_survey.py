"""What `conoscope corpus` prints: counts that are right, and text that cannot steer a terminal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conoscope.cli import main
from conoscope.common.errors import CorpusError
from conoscope.common.terminal import printable
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.corpora.describe import Survey, describe, survey
from layouts import LAYOUTS, hatexplain, write

FEW = [
    Example("a b c d", "good", rationale=(True, False, False, False)),
    Example("a b", "bad", pair="c d e f", rationale=(False, False, True, True, False, False)),
    Example("a", "good"),
    Example("a b c", None),
]


def test_counts_lengths_and_density_are_those_of_the_examples() -> None:
    described = describe(Corpus.of(FEW))
    assert (described.examples, described.pairs, described.unlabelled, described.rationales) == (4, 1, 1, 2)
    assert described.labels == {"good": 2, "bad": 1}
    assert described.density == pytest.approx(3 / 10)
    assert [described.length(share) for share in (0.01, 0.25, 0.5, 0.75, 1.0)] == [1, 1, 3, 4, 6]


def test_samples_are_the_same_whatever_the_order_and_no_more_than_asked() -> None:
    examples = list(load_corpus("bistro:test").first(100))
    one, other = (describe(Corpus.of(order), samples=4).samples for order in (examples, examples[::-1]))
    assert one == other
    assert len(one) == 4
    assert describe(Corpus.of(FEW), samples=0).samples == []


def test_an_empty_corpus_is_told() -> None:
    with pytest.raises(CorpusError, match="examples has no examples"):
        describe(Corpus.of([]))


def test_a_corpus_shows_every_split_and_a_spec_with_one_shows_that(tmp_path: Path) -> None:
    write(tmp_path, LAYOUTS["imdb archive"][1]())
    text = str(survey("imdb", data_dir=tmp_path))
    assert "movie reviews, negative or positive" in text
    assert "Maas et al. 2011" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert int(rows["train"][1]) + int(rows["validation"][1]) == int(rows["test"][1]) == 24
    assert "12 (50.0%)" in text
    assert "validation" not in str(survey("imdb:test", data_dir=tmp_path))


def test_splits_that_are_not_there_are_told_beside_those_that_are(tmp_path: Path) -> None:
    write(tmp_path, LAYOUTS["wikitext"][1]())
    text = str(survey("wikitext", data_dir=tmp_path))
    assert "train: " in text
    assert "has neither wiki.train.raw nor" in text
    assert "Nobody knows who made it first" in text


def test_notes_are_told_once_with_their_splits(tmp_path: Path) -> None:
    write(tmp_path, hatexplain())
    text = str(survey("hatexplain", data_dir=tmp_path))
    assert text.count("posts without a majority, left out: 1 (train, validation, test)") == 1


def test_offensive_texts_are_shown_only_when_asked_for(tmp_path: Path) -> None:
    write(tmp_path, hatexplain())
    silent = str(survey("hatexplain", data_dir=tmp_path))
    assert "weed" not in silent
    assert "--samples 3 shows some" in silent
    assert "you are a <user> [weed]" in str(survey("hatexplain", data_dir=tmp_path, options=Survey(samples=1)))


HOSTILE = "evil \x1b[31m\x07 \u202eright\u2066 \x00</script> 😀\nnew\tline"


def test_a_hostile_text_is_printed_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    rows = [{"text": HOSTILE, "label": "\x1b]0;title\x07"}, {"text": "x" * 10_000, "label": "plain"}]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    assert main(["corpus", str(tmp_path / "a.jsonl"), "--samples", "5"]) == 0
    out = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in out)
    assert r"evil \x1b[31m\x07 \u202eright\u2066 \x00</script> 😀 new line" in out
    assert max(map(len, out.splitlines())) <= 200


def test_printable_keeps_letters_and_spells_out_the_rest() -> None:
    assert printable("été 杜甫 😀") == "été 杜甫 😀"
    assert printable("a\r\nb\x1b") == "a  b\\x1b"


def test_the_command_tells_coverage_by_word_vectors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "v.txt").write_text("soup 1 2\ngood 3 4\n", encoding="utf-8")
    (tmp_path / "a.csv").write_text("text\nGood soup soup!\nwarm soup\n", encoding="utf-8")
    assert main(["corpus", str(tmp_path / "a.csv"), "--vectors", str(tmp_path / "v.txt")]) == 0
    assert "a.csv: 50.00% of 4 words and 66.67% of their 6 occurrences have a vector in " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["corpus", "imdb", "--data-dir", "nowhere"], "no data of imdb: looked for the folder nowhere"),
        (["corpus", "imdb:nope", "--data-dir", "nowhere"], "no split 'nope' in imdb"),
        (["corpus", "soup"], "no corpus 'soup', and no such file"),
        (["fetch", "yelp_hat", "--data-dir", "x"], "yelp_hat cannot be downloaded by conoscope: clone https://github.com"),
        (["corpus", "bistro", "--vectors", "nowhere.txt"], "no word vectors 'nowhere.txt'"),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_hostile_name_of_a_file_is_printed_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ev\x1b[31mil.csv").write_text("text\nsoup\n", encoding="utf-8")
    assert main(["corpus", str(tmp_path / "ev\x1b[31mil.csv")]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_labels_of_every_split_are_in_the_balance(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            f"d/{split}.jsonl": "".join(f'{{"text": "a", "label": "{label}"}}\n' for label in labels)
            for split, labels in (("train", "xy"), ("test", "z"))
        },
    )
    rows = [line.split() for line in str(survey(f"hub:{tmp_path / 'd'}")).splitlines()]
    assert ["z", "0", "(0.0%)", "1", "(100.0%)"] in rows


def test_neither_command_imports_torch_for_what_is_on_this_machine() -> None:
    code = (
        "import sys; from conoscope.cli import main; main(['corpus', 'bistro:test']); "
        "main(['fetch', 'hub']); print({'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}, encoding="utf-8"
    )
    assert done.stdout.strip().endswith("set()")
