"""What a report may say, computed from the tables a second time: plain loops, nothing of `conoscope.findings`."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from colorsys import rgb_to_hsv
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean
from typing import Any

Rows = list[dict[str, Any]]
NUMBER = re.compile(r"(?<![\w.,-])(-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)( %)?(?![\w])")
SCALES = ("95 % interval", "where 1 is uniform", "(1 is uniform)")
"""Phrases that say how a number is to be read, and hold no result."""


@dataclass
class Allowed:
    """The numbers that a text may hold, the pieces that it must and must not hold, and what it or the subject must name."""

    percent: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    required: list[str] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)

    def share(self, name: str, value: Any, digits: int = 1) -> None:
        """A percentage that must stand behind a name; nothing where the table has none."""
        if not missing(value):
            self.percent.append(float(value))
            self.required.append(f"{name}{100 * float(value):.{digits}f} %")

    def number(self, name: str, value: Any, digits: int = 2) -> None:
        """A number that must stand behind a name."""
        if not missing(value):
            self.plain.append(float(value))
            self.required.append(f"{name}{float(value):.{digits}f}".replace("-0.00", "0.00"))

    def count(self, value: Any, after: str = "") -> None:
        """A count that must stand before a word."""
        self.plain.append(float(value))
        self.required.append(f"{int(value):,}{after}")


def missing(value: Any) -> bool:
    """Whether a cell is empty."""
    return value is None or str(value) in ("<NA>", "nan", "None")


def wrong_numbers(text: str, allowed: Allowed) -> list[str]:
    """The numbers of a text that are not allowed at their printed rounding."""
    for phrase in SCALES:
        text = text.replace(phrase, "")
    return [shown + sign for shown, sign in NUMBER.findall(text) if not _is_one(shown.replace(",", ""), sign, allowed)]


def _is_one(shown: str, sign: str, allowed: Allowed) -> bool:
    digits = len(shown.partition(".")[2])
    known = [100 * value for value in allowed.percent] if sign else allowed.plain
    return any(f"{value:.{digits}f}" in (shown, f"-{shown}" if not float(shown) else shown) for value in known)


def claims_of(text: str, runs: Sequence[str]) -> dict[str, str]:
    """The parts of a finding on several runs, by run; what stands before the first run under nothing."""
    names = "|".join(map(re.escape, runs))
    parts = re.split(rf"(?:\. |; )({names}): ", text)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def faults_of(text: str, figure: str, tables: Mapping[str, Rows], runs: Sequence[str]) -> list[str]:
    """What a finding says that its table does not, and what it leaves out; `runs` are empty for a finding on one run."""
    table, reference = REFERENCES[figure]
    facts = {row["run"]: row for row in tables.get("runs", ()) if "run" in row}
    # A finding on one run may come from tables without names of runs.
    facts |= {"": next(iter(facts.values()))} if len(facts) == 1 else {}
    rows = [{**row, "facts": facts.get(row.get("run", ""), {})} for row in tables[table] if not missing(row["value"])]
    found = reference(rows)
    if not runs:
        (only,) = found.values()
        return _faults(text, only)
    parts = claims_of(text, runs)
    subject = Allowed(plain=[number for one in found.values() for number in one.plain])
    about = parts.pop("")
    faults = [f"{number} in {about!r}" for number in wrong_numbers(about, subject)]
    faults += [f"no word of the run {run}" for run in found.keys() - parts.keys()]
    return faults + [fault for run, part in parts.items() for fault in _faults(part, found[run], about)]


def _faults(text: str, allowed: Allowed, about: str = "") -> list[str]:
    wrong = [f"{number} in {text!r}" for number in wrong_numbers(text, allowed)]
    wrong += [f"{piece!r} in {text!r}" for piece in allowed.forbidden if piece in text]
    wrong += [f"no {piece!r} in {about!r} or {text!r}" for piece in allowed.named if piece not in text and piece not in about]
    return wrong + [f"no {piece!r} in {text!r}" for piece in allowed.required if piece not in text]


def by_run(rows: Rows) -> dict[str, Rows]:
    """The rows of each run, in order."""
    found: dict[str, Rows] = {}
    for row in rows:
        found.setdefault(row.get("run", ""), []).append(row)
    return found


def everywhere(keyed: Mapping[str, Mapping[Any, Any]]) -> set[Any]:
    """The keys that every run has."""
    return set.intersection(*(set(found) for found in keyed.values()))


def _sim(rows: Rows) -> dict[str, Allowed]:
    cells: dict[str, dict[Any, dict[str, float]]] = {}
    for run, here in by_run(rows).items():
        cells[run] = {}
        for place in dict.fromkeys((row["site"], row["layer"]) for row in here):
            of = [row for row in here if (row["site"], row["layer"]) == place]
            whole = [row for row in of if missing(row["head"])] or of
            means = {name: fmean(float(row[name]) for row in whole) for name in ("value", "n")}
            base = [row.get("baseline") for row in whole]
            baseline = float("nan") if any(map(missing, base)) else fmean(map(float, base))
            heads = 0 if missing(whole[0]["head"]) else len(whole)
            cells[run][(*place, heads)] = {**means, "baseline": baseline}
    own = {run: max(here, key=lambda place, here=here: here[place]["value"]) for run, here in cells.items()}
    shared = everywhere(cells)
    # Of equal ones the first of the table.
    every = [(cells[run][place]["value"], place) for run in cells for place in cells[run] if place in shared]
    best = max(every, key=lambda one: one[0])[1] if every else None
    return {run: _cone(here, best or own[run], own[run], len(cells)) for run, here in cells.items()}


def _cone(here: Mapping[Any, Mapping[str, float]], at: Any, own: Any, runs: int) -> Allowed:
    allowed, cell = Allowed(plain=[at[1], at[2], len(here)]), here[at]
    allowed.number("", cell["value"])
    allowed.number("between different sentences ", cell["baseline"])
    allowed.count(cell["n"], " sentence")
    allowed.required.append(_verdict_on_a_cone(cell["value"], cell["baseline"]))
    allowed.named.append(_place(at))
    if runs > 1 and own != at:
        allowed.plain += [own[1], own[2]]
        base = here[own]["baseline"]
        allowed.plain += [] if missing(base) else [base]
        beside = "" if missing(base) else f" (between different sentences {base:.2f})".replace("-0.00", "0.00")
        allowed.number("", here[own]["value"])
        allowed.required.append(f"{_place(own)}, {here[own]['value']:.2f}{beside}".replace("-0.00", "0.00"))
    return allowed


def _verdict_on_a_cone(value: float, baseline: float) -> str:
    if value < 0.4:
        return "no narrow cone"
    how = "nearly one direction" if value >= 0.8 else "a wide cone"
    if missing(baseline):
        return how
    same = "the same" if baseline >= value - 0.05 else "another" if baseline < value / 2 else "partly the same"
    return f"{how}, {same} for {'each sentence' if same == 'another' else 'all sentences'}"


def _place(at: Any) -> str:
    words = {"hidden": "hidden states", "output": "attention outputs", "query": "queries", "key": "keys", "value": "values"}
    site = {**words, "input": "layer inputs", "context": "head outputs"}[at[0]]
    heads = f", mean over {at[2]} head{'s' if at[2] > 1 else ''}" if at[2] else ""
    return f"{site} of layer {at[1]}{'' if at[1] else ' (the embedding)'}{heads}"


def _nearest(rows: Rows) -> dict[str, Allowed]:
    last = {}
    for run, here in by_run([row for row in rows if row["site"] == "hidden"]).items():
        deepest = max(row["layer"] for row in here)
        last[run] = [row for row in here if row["layer"] == deepest]
    kinds = {run: {row["representative"]: row for row in here if row["control"] == "none"} for run, here in last.items()}
    order = ("held_out", "mean", "medoid", "first")
    common = everywhere(kinds)
    found = {}
    for run, here in last.items():
        row = next(kinds[run][kind] for kind in order if kind in (common or kinds[run]))
        found[run] = _against_controls(row, {one["control"]: one for one in here if one["control"] != "none"})
    return found


def _against_controls(row: dict[str, Any], controls: Mapping[str, dict[str, Any]]) -> Allowed:
    allowed = Allowed(plain=[row["layer"]])
    told = row["facts"].get("vector")
    vector = (
        ("the vector that stands for a text" if missing(row.get("model")) else "what the classifier reads")
        if missing(told)
        else told
    )
    how = {
        "held_out": "means of the other half",
        "mean": "class means",
        "medoid": "middle examples",
        "first": "first right examples",
    }
    allowed.required += [f"{vector} in layer {row['layer']}", how[row["representative"]]]
    allowed.share("", row["value"])
    allowed.count(row["n"], " example")
    allowed.share("largest class ", row["chance"])
    allowed.share("the model itself ", row.get("model"))
    allowed.share("same answer as the model ", row.get("agreement"))
    low = _wilson(float(row["value"]), float(row["n"]))[0]
    failed = {"the largest class": float(row["chance"])} if low <= row["chance"] else {}
    if "norm" in controls:
        norm = float(controls["norm"]["value"])
        allowed.share("length alone ", norm)
        high = _wilson(norm, float(controls["norm"]["n"]))[1]
        if row["value"] - norm <= sqrt((row["value"] - low) ** 2 + (high - norm) ** 2):
            failed["length alone"] = norm
    if "shuffled" in controls:
        one = controls["shuffled"]
        allowed.share("shuffled labels ", one["value"])
        by_chance = not missing(one.get("p")) and one["p"] > 0.05
        bound = max(float(one["value"]), float(row["value"])) if by_chance else float(one["value"])
        failed |= {"shuffled labels": bound} if low <= bound else {}
        if not missing(one.get("p")):
            allowed.share("(", one["low"])
            allowed.share(" to ", one["high"])
            allowed.share("", one["observed"])
            allowed.count(one["permutations"], " permutations")
            allowed.plain.append(float(one["p"]))
            allowed.required.append(f"p = {float(one['p']):.2g}")
    strongest = [name for name, bound in failed.items() if bound == max(failed.values())]
    verdict = f"hardly tells the class beyond {strongest[0]}" if failed else " tells the class"
    allowed.required.append("has but one class to tell" if row["chance"] == 1 else verdict)
    if not failed:
        allowed.forbidden.append("hardly")
    return allowed


def _wilson(p: float, n: float) -> tuple[float, float]:
    """Both ends of Wilson's 95 % interval."""
    middle, spread = p + 1.96**2 / (2 * n), 1.96 * sqrt(p * (1 - p) / n + (1.96 / (2 * n)) ** 2)
    return (middle - spread) / (1 + 1.96**2 / n), (middle + spread) / (1 + 1.96**2 / n)


def _gates(rows: Rows) -> dict[str, Allowed]:
    found = {}
    for run, here in by_run(rows).items():
        allowed, kinds = Allowed(), Counter(kind for row in here for kind in row["gates"].split(" + "))
        mixed, texts = kinds.pop("mixed", 0), {row["n"] for row in here}
        allowed.count(len(here), " head")
        if kinds:
            allowed.count(kinds.total(), " gate")
        if any("+" in row["gates"] for row in here):
            allowed.required.append("a head may have several")
        if mixed:
            allowed.count(mixed, " head")
        allowed.required += [f"{count} {kind}" for kind, count in kinds.most_common(3)]
        counts = sorted(kinds.values(), reverse=True)
        allowed.plain += [*counts, sum(counts[3:])]
        allowed.plain += map(float, texts)
        allowed.required.append(f"{max(texts)} text")
        allowed.number("at least half of these texts: ", sum(row["value"] >= 0.5 for row in here), 0)
        allowed.share("mean share of texts that keep it ", fmean(float(row["value"]) for row in here), 0)
        found[run] = allowed
    return found


def _norms(rows: Rows) -> dict[str, Allowed]:
    kinds = {}
    for run, here in by_run([row for row in rows if missing(row["head"])]).items():
        names = {row["kind"] for row in here} - {"other"}
        means = {kind: [row for row in here if row["kind"] == kind] for kind in names}
        kinds[run] = {
            kind: (*(fmean(float(row[name]) for row in of) for name in ("weight", "share")), len({row["layer"] for row in of}))
            for kind, of in means.items()
        }
    common = everywhere(kinds)
    most = max((abs(here[kind][0] - here[kind][1]), kind) for here in kinds.values() for kind in common or here)[1]
    found = {}
    for run, here in kinds.items():
        kind = most if common else max(here, key=lambda one, here=here: abs(here[one][0] - here[one][1]))
        allowed = Allowed(plain=[len(here), here[kind][2]])
        words = {"cls": "[CLS] or begin-of-text tokens", "sep": "[SEP] or end-of-text tokens", "special": "other special tokens"}
        allowed.required.append({**words, "punctuation": "punctuation marks"}.get(kind, f"tokens of kind {kind}"))
        weight, share = (f"{100 * here[kind][place]:.0f} %" for place in (0, 1))
        allowed.percent += here[kind][:2]
        allowed.required.append(f"{weight} of the weight and {share} of the norm")
        allowed.count(max(row["n"] for row in by_run(rows)[run] if row["kind"] == kind and missing(row["head"])), " text")
        apart = abs(here[kind][0] - here[kind][1]) >= 0.05
        allowed.required += [f"{here[kind][2]} layer", " disagree" if apart else " agree"]
        found[run] = allowed
    return found


def _entropy(rows: Rows) -> dict[str, Allowed]:
    layers: dict[str, dict[int, float]] = {}
    shape: dict[str, tuple[int, int]] = {}
    for run, here in by_run([row for row in rows if row["row"] == "all"]).items():
        of = {layer: [row for row in here if row["layer"] == layer] for layer in {row["layer"] for row in here}}
        layers[run] = {layer: fmean(float(row["value"]) for row in some) for layer, some in of.items()}
        shape[run] = (max(map(len, of.values())), max(row["n"] for row in here))
    common = everywhere(layers)
    found = {}
    for run, here in layers.items():
        ends = (min(here, key=here.__getitem__), max(here, key=here.__getitem__))
        if len(layers) > 1 and common:
            apart = {layer: max(x[layer] for x in layers.values()) - min(x[layer] for x in layers.values()) for layer in common}
            ends = (max(sorted(apart), key=apart.__getitem__),) * 2
        allowed = Allowed(plain=[*ends, len(here)])
        for layer in ends:
            allowed.number("", here[layer])
        low, high = (f"{here[layer]:.2f}" for layer in ends)
        if ends[0] == ends[1]:
            allowed.named.append(f"in layer {ends[0]}")
        elif low != high and len(layers) == 1:
            allowed.required += [f"most uniform in layer {ends[1]} (entropy {high}", f"concentrated in layer {ends[0]}, at {low}"]
        allowed.count(shape[run][0], " head")
        allowed.count(shape[run][1], " text")
        found[run] = allowed
    return found


def _rank(rows: Rows) -> dict[str, Allowed]:
    found = {}
    for run, here in by_run([row for row in rows if row["site"] == "hidden" and missing(row["head"])]).items():
        row = max(here, key=lambda row: row["layer"])
        if row["n"] >= 8 * row["width"]:
            found[run] = allowed = Allowed(plain=[row["layer"]])
            allowed.number("", row["value"], 0)
            allowed.count(row["width"])
            allowed.count(row["n"], " vector")
    return found


def _mixing(rows: Rows) -> dict[str, Allowed]:
    ratios: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for run, here in by_run([row for row in rows if row["kind"] == "all"]).items():
        ratios[run] = {method: [row for row in here if row["method"] == method] for method in {row["method"] for row in here}}
    common = everywhere(ratios)
    found = {}
    for run, here in ratios.items():
        full = ("attnresln_n", "attnres_n", "attn_n")
        method = next(name for name in full if name in (common if common & set(full) else here))
        allowed = Allowed()
        allowed.share("", fmean(float(row["value"]) for row in here[method]), 0)
        allowed.count(len({row["layer"] for row in here[method]}), " layer")
        allowed.count(max(row["n"] for row in here[method]), " token")
        if "attn_w" in here:
            allowed.share("by attention weights alone ", fmean(float(row["value"]) for row in here["attn_w"]), 0)
        found[run] = allowed
    return found


def _frequency(rows: Rows) -> dict[str, Allowed]:
    found = {}
    for run, here in by_run([row for row in rows if missing(row["layer"]) and row["by"] == "corpus"]).items():
        cells = {(row["what"], row["tokens"]): row for row in here}
        found[run] = allowed = Allowed()
        allowed.number("", cells["norm", "all"]["value"])
        allowed.count(cells["norm", "all"]["n"], " token")
        for key, name in ((("norm", "content"), "without special tokens "), (("weight", "all"), "of rank and attention weight ")):
            if key in cells:
                allowed.number(name, cells[key]["value"])
        both = [float(cells["norm", tokens]["value"]) for tokens in ("all", "content") if ("norm", tokens) in cells]
        weak = min(map(abs, both)) < 0.1 or min(both) < 0 < max(both)
        allowed.required.append(
            ("hardly longer or shorter" if weak else "longer" if both[0] > 0 else "shorter") + " for rare tokens"
        )
        allowed.forbidden += [] if weak else ["hardly"]
    return found


def _plausibility(rows: Rows) -> dict[str, Allowed]:
    maps = {
        run: {row["map"]: row for row in here}
        for run, here in by_run([row for row in rows if (row["metric"], row["average"]) == ("auroc", "micro")]).items()
    }
    random = {run: here.pop("random", None) for run, here in maps.items()}
    common = everywhere(maps)
    # Of equal ones the first of the table.
    every = [(one["value"], name) for here in maps.values() for name, one in here.items() if name in common]
    best = max(every, key=lambda one: one[0])[1] if every else None
    found = {}
    for run, here in maps.items():
        row = here[best] if best else max(here.values(), key=lambda row: row["value"])
        found[run] = allowed = Allowed(plain=[len(here), 0.5])
        allowed.required.append("chance 0.5")
        allowed.number("", row["value"])
        allowed.number("95 % interval ", row["low"])
        allowed.number(" to ", row["high"])
        allowed.count(row["n"], " word")
        if random[run] is not None:
            allowed.number("random map ", random[run]["value"])
        chance = [0.5, 0.5 if random[run] is None else random[run]["value"]]
        agrees = "agrees with" if row["low"] > max(chance) else "cannot be told from chance by"
        allowed.required.append("runs against" if row["high"] < min(chance) else agrees)
        allowed.named.append(row["map"])
        if row["facts"].get("marked_by") == "grammar":
            allowed.required.append("marked by the grammar of the corpus, not by people")
        if len(here) > 1:
            allowed.required.append(f"chosen among {len(here)} maps on the same sentences")
    return found


REFERENCES: dict[str, tuple[str, Callable[[Rows], dict[str, Allowed]]]] = {
    "sim": ("sim", _sim),
    "nearest-cone": ("class_cones.nearest", _nearest),
    "plausibility": ("plausibility", _plausibility),
    "gates": ("gates.names", _gates),
    "weights-and-norms": ("norms", _norms),
    "entropy": ("attention_entropy", _entropy),
    "effective-rank": ("effective_rank", _rank),
    "mixing": ("mixing", _mixing),
    "frequency": ("frequency", _frequency),
}
"""For each figure that a finding links to: the table, and what the finding may and must say of each run."""


def layers_of(spec: Mapping[str, Any], above: Mapping[str, Any] | None = None) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every mark of a Vega-Lite spec with the encoding that it has, that of the views around it included."""
    encoding = {**(above or {}), **spec.get("encoding", {})}
    if "mark" in spec:
        mark = spec["mark"]
        yield (mark if isinstance(mark, dict) else {"type": mark}), encoding
    for name in ("layer", "hconcat", "vconcat", "concat"):
        for inner in spec.get(name, ()):
            yield from layers_of(inner, encoding)
    if "spec" in spec:
        yield from layers_of(spec["spec"], encoding)


def _of_type(*types: str) -> Callable[[dict[str, Any], dict[str, Any]], bool]:
    return lambda mark, encoding: mark["type"] in types


def _dashed(mark: dict[str, Any], encoding: dict[str, Any]) -> bool:
    return "strokeDash" in mark or "strokeDash" in encoding


def _shaped(shape: str) -> Callable[[dict[str, Any], dict[str, Any]], bool]:
    return lambda mark, encoding: f"'{shape}'" in str(mark) + str(encoding.get("shape"))


def _round(mark: dict[str, Any], encoding: dict[str, Any]) -> bool:
    return mark["type"] == "circle" or _shaped("circle")(mark, encoding) or (mark["type"] == "point" and "shape" not in encoding)


def _struck(mark: dict[str, Any], encoding: dict[str, Any]) -> bool:
    return mark["type"] in ("tick", "rule") or "'M0,-" in str(encoding.get("shape"))


def _three_cornered(mark: dict[str, Any], encoding: dict[str, Any]) -> bool:
    return "'triangle" in str(mark) + str(encoding.get("shape"))


HUES = {"green": (0.3, 0.5), "orange": (0.03, 0.13), "blue": (0.5, 0.65)}
"""Where a colour lies on the wheel."""


def _coloured(name: str) -> Callable[[dict[str, Any], dict[str, Any]], bool]:
    def there(mark: dict[str, Any], encoding: dict[str, Any]) -> bool:
        for found in re.findall(r"#([0-9a-fA-F]{6})\b", str(mark) + str(encoding)):
            hue, saturation, _ = rgb_to_hsv(*(int(found[at : at + 2], 16) / 255 for at in (0, 2, 4)))
            if saturation < 0.15 if name == "grey" else saturation >= 0.15 and HUES[name][0] <= hue <= HUES[name][1]:
                return True
        return False

    return there


MARKS = {
    r"\b[Cc]ircles?\b": _round,
    r"\b[Tt]riangles?\b": _three_cornered,
    r"\b[Ss]trokes?\b": _struck,
    **{rf"\b[{name[0].upper()}{name[0]}]{name[1:]}\b": _coloured(name) for name in ("green", "orange", "blue", "grey")},
    r"\b[Dd]ashed\b": _dashed,
    r"\b[Dd]otted\b": _dashed,
    r"\b[Bb]ands?\b": _of_type("area", "errorband"),
    r"\b[Bb]ox(?:es)?\b": _of_type("bar", "rect", "boxplot"),
    r"\b[Ww]hiskers?\b": _of_type("rule", "boxplot"),
    r"\b[Bb]ars?\b": _of_type("bar", "rule", "errorbar"),
    r"\b[Dd]iamonds?\b": _shaped("diamond"),
    r"\b[Dd]ots?\b|\b[Pp]oints?\b(?! (?:one|the|any|against|of))": _of_type("point", "circle", "square", "line"),
    r"\b[Tt]iles?\b|\b[Cc]ells?\b|\b[Ss]quares? is\b": _of_type("rect", "image"),
    r"\b[Hh]istograms?\b": _of_type("area", "bar", "line"),
    r"\b[Tt]he line\b|\b[Aa] line\b|\b[Ll]ines\b": _of_type("line", "rule", "rect", "trail"),
}
"""Words for marks, and the layers that draw them; a layer of any kind that is named in a caption must be there."""


def marks_not_drawn(caption: str, spec: Mapping[str, Any]) -> list[str]:
    """The words of a caption that name a mark of which the chart has no layer."""
    drawn = list(layers_of(spec))
    named = [(word, found) for pattern, draws in MARKS.items() if (word := re.search(pattern, caption)) for found in [draws]]
    hollow = ["hollow"] if re.search(r"\b[Hh]ollow\b", caption) and not _hollow(spec) else []
    return hollow + [word.group() for word, draws in named if not any(draws(mark, encoding) for mark, encoding in drawn)]


def _hollow(spec: Mapping[str, Any]) -> bool:
    """Whether some rows are drawn with another filling than the rest: those of a wrong answer."""
    return "fillOpacity" in str(spec) and any(row.get("answer") == "wrong" for rows in spec["datasets"].values() for row in rows)
