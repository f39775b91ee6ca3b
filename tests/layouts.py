"""Small corpora in the layouts that their authors publish, with texts of our own."""

import csv
import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from conoscope.corpora.newsgroups import LABELS as GROUPS

LETTERS = "acgt"


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def tar(files: Mapping[str, str | bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def table(header: list[str], *rows: list[str], delimiter: str = ",") -> str:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter).writerows([header, *rows])
    return buffer.getvalue()


REVIEWS = {
    f"aclImdb/{split}/{label}/{number}_{score}.txt": f"The {split} film number {number} was {word}.<br />Really."
    for split in ("train", "test")
    for label, score, word in (("neg", 2, "dull"), ("pos", 9, "bright"))
    for number in range(12)
}


def posts(**changes: object) -> dict[str, object]:
    """Three posts, one for each split, and one whose annotators all disagree."""

    def post(labels: str, tokens: str, *rationales: list[int]) -> dict[str, object]:
        names = {"n": "normal", "h": "hatespeech", "o": "offensive"}
        annotators = [{"label": names[letter], "annotator_id": 1, "target": ["None"]} for letter in labels]
        return {"post_id": "x", "annotators": annotators, "rationales": list(rationales), "post_tokens": tokens.split()}

    return {
        "a_train": post("hho", "you are a <user> weed", [0, 0, 0, 0, 1]),
        "b_val": post("nno", "we met on a sunny day"),
        "c_test": post("oon", "what a silly goose", [0, 0, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0]),
        "d_none": post("nho", "who can say", [1, 0, 0]),
        **changes,
    }


def hatexplain(found: dict[str, object] | None = None, **more: list[str]) -> dict[str, str]:
    divisions = {"train": ["a_train"], "val": ["b_val"], "test": ["c_test"]}
    divisions = {name: [*ids, *more.get(name, ())] for name, ids in divisions.items()}
    return {
        "hatexplain/dataset.json": json.dumps(posts() if found is None else found, indent=1),
        "hatexplain/post_id_divisions.json": json.dumps(divisions, indent=1),
    }


def spans(text: str, marked: str) -> str:
    """The page of one annotator: a span for each word, an empty one at the end."""
    words = "".join(
        f"<span{' class=' + chr(34) + 'active' + chr(34) if mark == '1' else ''}>{word}</span> "
        for word, mark in zip(text.split(), marked, strict=True)
    )
    return f"{words}<span></span>"


RAW = ["Input.label", "Input.text", "Answer.Q1Answer", "Answer.html_output"]
DINER = "The soup was lovely - really!"


def annotated(text: str = DINER, marks: tuple[str, ...] = ("000111", "000101", "000000"), label: str = "1") -> list[list[str]]:
    return [[label, text, "yes", spans(text, mark)] for mark in marks]


def yelp_hat() -> dict[str, str]:
    counted = table(["label", "text", "human_attention"], *(["0", f"Bad\nfish {n}", "3 2 0"] for n in range(20)))
    return {
        **{f"yelp_hat/raw_data/ham_part{n}.csv": table(RAW, *annotated()) for n in ("1(50words)", "6(100words)", "7")},
        "yelp_hat/raw_data/ham_part8(200words).csv": table(RAW, *annotated()),
        **{f"yelp_hat/processed_data/ham_part{n}.csv": counted for n in (3, 4, 5)},
    }  # fmt: skip


ESNLI = ["pairID", "gold_label", "Sentence1", "Sentence2"]
MARKED = [*ESNLI, "Explanation_1", "Sentence1_marked_1", "Sentence2_marked_1"]


def esnli() -> dict[str, str]:
    plain = table(ESNLI, ["1", "entailment", "A dog runs.", "An animal moves ."], ["2", "neutral", "It's cold", "n/a"])
    marked = table(
        MARKED,
        ["3", "contradiction", "A dog runs.", "A dog sleeps.", "why", "A dog *runs.*", "A dog *sleeps*."],
        ["4", "neutral", "A dog runs.", "It barks.", "why", "A dog runs.", "*It barks too."],
    )
    return {"esnli/esnli_train_subset.csv": plain, "esnli/esnli_dev.csv": plain, "esnli/esnli_test.csv": marked}


def newsgroups_tab() -> dict[str, bytes]:
    rows = "".join(f"{group}\tre a post about {group} number {n}\n" for group in GROUPS for n in range(3))
    content = gzip.compress(f"Category\tText\nd\tstring\nclass\t\n\n{rows}".encode(), mtime=0)
    return {f"newsgroups/20newsgroups-{part}.tab.gz": content for part in ("train", "test")}


def newsgroups_files() -> dict[str, bytes]:
    return {
        f"20news-bydate-{part}/{group}/{n}": f"From: x@y\nSubject: {group}\n\nA caf\xe9 in {group}, number {n}\n".encode(
            "latin-1"
        )
        for part in ("train", "test")
        for group in GROUPS
        for n in range(3)
    }


def newsgroups_tar() -> dict[str, bytes]:
    return {"newsgroups/20news-bydate.tar.gz": tar(newsgroups_files())}


def spike(number: int) -> str:
    """A gene of 3,822 bases, another one for each number, with a gap and a letter that stands for several."""
    return (f"ATG{LETTERS[number % 4]}{LETTERS[number // 4 % 4]}-R" + "ACGTTGCA" * 480)[:3822]


def sarscov2(count: int = 30) -> dict[str, str | bytes]:
    fasta = "".join(f">L.{n} consensus\n{spike(n)[:2000]}\n{spike(n)[2000:]}\n" for n in range(count))
    classes = [[f"L.{n}", ("20A", "21J")[n % 2], ("", "Delta")[n % 2]] for n in range(count)]
    genome = "N" * 21562 + spike(3) + "N" * (29903 - 25384)
    return {
        "sarscov2/pango_consensus_spike.fasta.gz": gzip.compress(fasta.encode(), mtime=0),
        "sarscov2/pango_consensus_labels.tsv": table(["lineage", "clade_nextstrain", "who"], *classes, delimiter="\t"),
        "sarscov2/real_genomes_aligned.fasta": f">G1\n{genome}\n>G2\n{genome}\n",
        "sarscov2/real_genomes_labels.tsv": "name\tclade_nextstrain\twho\nG1\t21J\tDelta\nG2\tNone\tNone\n",
    }


ARTICLE = " = A Soup = \n \n The soup was hot . It was red too . \n \n = = History = = \n Nobody knows who made it first . \n"


def wikitext() -> dict[str, str]:
    return {"wikitext2/wiki.test.raw": ARTICLE}


def wikitext_zip() -> dict[str, bytes]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("wikitext-2-raw/wiki.test.raw", ARTICLE)
    return {"wikitext2/wikitext-2-raw-v1.zip": buffer.getvalue()}


LAYOUTS: dict[str, tuple[str, Callable[[], Mapping[str, str | bytes]]]] = {
    "imdb archive": ("imdb", lambda: {"imdb/aclImdb_v1.tar.gz": tar(REVIEWS)}),
    "imdb archive, not compressed": ("imdb", lambda: {"imdb/aclImdb_v1.tar.gz": tar(REVIEWS, "w:")}),
    "imdb folder": ("imdb", lambda: {f"imdb/{name}": text for name, text in REVIEWS.items()}),
    "hatexplain": ("hatexplain", hatexplain),
    "yelp_hat": ("yelp_hat", yelp_hat),
    "esnli": ("esnli", esnli),
    "newsgroups table": ("newsgroups", newsgroups_tab),
    "newsgroups archive": ("newsgroups", newsgroups_tar),
    "newsgroups folder": ("newsgroups", lambda: {f"newsgroups/{name}": text for name, text in newsgroups_files().items()}),
    "sarscov2": ("sarscov2:test:minimum=2", sarscov2),
    "wikitext": ("wikitext", wikitext),
    "wikitext archive": ("wikitext", wikitext_zip),
}
"""A spec, and the files that it needs."""
