"""How it was made: the command, the options and the versions of each run."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from conoscope import __version__
from conoscope.common.markup import Html, joined, quoted, tag
from conoscope.reporting.gathering import Run
from conoscope.results.store import missing_shards

LONGEST = 2000


def making(runs: Sequence[Run]) -> Html:
    """Of each run what its provenance says, and what the page was made with."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("altair", "vl-convert-python", "pandas"))
    return joined(
        (
            *(_run(run) for run in runs),
            tag("h3", "This page"),
            tag(
                "p",
                f"Made by conoscope {__version__} with {packages}. It holds all that it shows and asks nothing of the network. ",
                "A figure by itself, for a paper: ",
                tag("code", "conoscope figure NAME FOLDER -o figure.pdf"),
                ", where NAME stands beside the figure's number.",
            ),
        )
    )


def _run(run: Run) -> Html:
    told = [tag("div", tag("dt", name), tag("dd", *said)) for name, said in _told(run) if any(said)]
    return joined((tag("h3", quoted(run.name)), tag("dl", *told, class_="made")))


def _told(run: Run) -> Iterator[tuple[str, Sequence[Html]]]:
    said = run.provenance
    model, corpus, seen = said.get("model", {}), said.get("corpus", {}), said.get("seen", {})
    yield "Command", [_code(said["command"])] if said.get("command") else []
    yield "Read from", [_code(run.source)] if run.source else []
    yield "Model", [_plain(model.get("name", "")), *_also(model.get("class"))] if model else []
    yield "Hash of its weights", [_code(model["hash"])] if model.get("hash") else []
    yield "Training", [_pairs(model.get("training") or {})]
    yield "Corpus", [_pairs({name: corpus[name] for name in corpus if name != "labels"})]
    yield "Texts", [_plain(sentence) for sentence in _texts(seen, said.get("options", {}))]
    yield "Shards", [_plain(", ".join(said.get("shards", ()))), *_also(_missing(said))]
    yield "Measures", [_plain(", ".join(said.get("measures", ())))]
    yield "Options", [_pairs(said.get("options", {}))]
    yield "Gaps", [tag("p", _plain(gap)) for gap in said.get("gaps", ())]
    yield "Notes", [tag("p", _plain(note)) for note in said.get("notes", ())]
    yield "Versions", [_pairs(said.get("versions", {}))]


def _texts(seen: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
    if seen.get("examples") is not None:
        yield f"{seen['examples']:,} texts were read. "
    if seen.get("truncated"):
        yield f"{seen['truncated']:,} of them were longer than {options.get('max_length')} tokens and were cut. "
    for name, count in seen.get("words_without_score", {}).items():
        if count:
            yield f"{count:,} words have no score by the map {name} and are left out. "


def _missing(said: Mapping[str, Any]) -> str:
    missing = missing_shards(said) if said.get("shards") else []
    return f"missing: {', '.join(missing)}" if missing else ""


def _plain(text: str) -> Html:
    return quoted(text, LONGEST) if text else Html()


def _code(text: str) -> Html:
    return tag("code", quoted(text, LONGEST))


def _also(text: str | None) -> Sequence[Html]:
    return [joined((" (", _plain(text), ")"))] if text else []


def _pairs(named: Mapping[str, Any]) -> Html:
    told = {name: value for name, value in named.items() if value not in (None, "", {}, [])}
    return _plain("; ".join(f"{name.replace('_', ' ')} {_said(value)}" for name, value in told.items()))


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_said(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return " ".join(_said(inner) for inner in value)
    return str(value)
