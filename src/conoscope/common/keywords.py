"""Options as keywords: `measure(model, texts, limit=100)` is `measure(model, texts, options=Options(limit=100))`."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from conoscope.common.errors import MeasureError, one_of

ALIKE = 0.65
"""How alike two names must be for one to be proposed for the other: `sin` and `sim` are, `doors` and `norms` are not."""
INSTEAD = {"tokenizer": "give the model as (model, tokenizer)", "measure": "the name is measures", "map": "the name is maps"}
RENAMED = {"lr": "learning_rate", "from_": "checkpoint"}
"""What options of the command line are called in Python, where that is another name."""
"""What to type in place of keywords that resemble no option."""

EXAMPLES = {"measure": "sim", "map": "attention"}
Made = TypeVar("Made")


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'sim'?)`, with the known name that resembles this one most; an empty text if none does."""
    by_fold = {each.casefold().replace("-", "_"): each for each in known}
    found = get_close_matches(name.casefold().replace("-", "_"), by_fold, n=1, cutoff=ALIKE)
    return f" (did you mean {by_fold[found[0]]!r}?)" if found and by_fold[found[0]] != name else ""


def with_keywords(verb: str, keywords: Mapping[str, Any], *given: Any) -> tuple[Any, ...]:
    """The same dataclasses of options, in their order, with the fields that the keywords name replaced.

    MeasureError for a keyword that none of them has, or that is given twice: as a keyword and in the dataclass.
    """
    known = {field.name for options in given for field in fields(options)}
    for name in keywords:
        if name not in known:
            renamed = RENAMED.get(name) in known
            advice = (
                f"; the name is {RENAMED[name]}" if renamed else f"; {INSTEAD[name]}" if name in INSTEAD else nearest(name, known)
            )
            raise MeasureError(f"{verb} has no option {name!r}{advice}; known: {one_of(known)}")
    return tuple(_replaced(options, keywords) for options in given)


def _replaced(options: Any, keywords: Mapping[str, Any]) -> Any:
    own = {field.name: keywords[field.name] for field in fields(options) if field.name in keywords}
    usual = type(options)()
    for name in own:
        if getattr(options, name) != getattr(usual, name):
            raise MeasureError(f"{name} is given twice, as a keyword and in {type(options).__name__}; give it once")
    return replace(options, **own)


def options_from(kind: type[Made], given: object) -> Made:
    """A dataclass of options: as given, made from a dictionary of its fields, or with its defaults for None."""
    if given is None:
        return kind()
    if isinstance(given, Mapping):
        return kind(**given)
    if not isinstance(given, kind):
        raise MeasureError(
            f"options of type {type(given).__name__} are no {kind.__name__}; give {kind.__name__}(...) or keywords"
        )
    return given


def refuse_unknown_fields(kind: type[Made]) -> type[Made]:
    """Class decorator: for a field that it does not have, the dataclass raises MeasureError with the nearest name."""
    made = kind.__init__
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]

    @wraps(made)
    def checked(self: Any, *values: Any, **named: Any) -> None:
        for name in named:
            if name not in known:
                raise MeasureError(f"{kind.__name__} has no {name!r}{nearest(name, known)}; known: {one_of(known)}")
        made(self, *values, **named)

    kind.__init__ = checked  # type: ignore[method-assign]
    return kind


def names_in(names: str | Iterable[str], what: str = "measure") -> list[str]:
    """Names as a list: one name may be given as a text of its own. MeasureError for what is no name of a `what`."""
    if isinstance(names, str):
        return [names]
    listed = list(names) if isinstance(names, Iterable) else [names]
    if wrong := [name for name in listed if not isinstance(name, str)]:
        raise MeasureError(f"{wrong[0]!r} is no name of a {what}; give names, as in ['{EXAMPLES[what]}']")
    return listed
