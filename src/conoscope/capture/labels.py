"""Labels: matching the labels of a corpus with the classes of a model."""

from collections import Counter
from collections.abc import Mapping, Sequence

from conoscope.common.errors import LabelsDifferError, ModelError, one_of

SHORT = 20
"""How long a label may be that an error repeats as an example of what to type."""


def matched(labels: Sequence[str], classes: Sequence[str], corpus: str, model: str) -> Mapping[str, int]:
    """The index of the model's class for each label of the corpus: by name, or by number if the model has no names.

    An equal name comes first. Case is ignored only if one label and one class have that name, so that "us" and "US" stay two.
    """
    exact = {name: number for number, name in enumerate(classes)}
    folded = {name.casefold(): number for number, name in enumerate(classes)}
    ours, theirs = Counter(label.casefold() for label in labels), Counter(name.casefold() for name in classes)
    numbered = all(name.startswith("LABEL_") for name in classes)
    found: dict[str, int] = {}
    for label in labels:
        fold = label.casefold()
        if label in exact:
            found[label] = exact[label]
        elif ours[fold] == theirs[fold] == 1:
            found[label] = folded[fold]
        elif numbered and label.isascii() and label.isdecimal() and label == str(int(label[:9])) and int(label) < len(classes):
            found[label] = int(label)
        else:
            alike = [name for name in (*labels, *classes) if name != label and name.casefold() == fold]
            case = f", and {alike[0]!r} is another label" if alike else ""
            raise LabelsDifferError(
                f"{corpus} has the label {label!r}, which {model} does not have (it has {one_of(classes)}){case}; "
                f"rename the labels with --label-names {_example(labels)} (in Python label_names=)"
            )
    if twice := [label for label in labels if list(found.values()).count(found[label]) > 1]:
        raise ModelError(
            f"{corpus} has the labels {twice[0]!r} and {twice[1]!r}, which are one class of {model}; rename one of them"
        )
    return found


def _example(labels: Sequence[str]) -> str:
    """What to type to name labels: the first of them if they are short, each with a place for a class."""
    short = [f"{label}=..." for label in labels[:2] if label.isalnum() and len(label) <= SHORT]
    return ",".join((*short, "...") if len(labels) > len(short) else short) if short else "LABEL=CLASS,..."


def distinct(classes: Sequence[str], model: str) -> tuple[str, ...]:
    """The names of a model's classes; ModelError if two are equal, since no table could distinguish them."""
    if twice := [name for name, count in Counter(classes).items() if count > 1]:
        raise ModelError(f"{model} has two classes of the name {twice[0]!r}; give each its own in id2label of its config.json")
    return tuple(classes)
