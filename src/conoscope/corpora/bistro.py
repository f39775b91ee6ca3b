"""Restaurant reviews from a grammar of our own: what was decisive is known, and word order decides.

About half of the reviews have a twin in the same split, with the same words in another order and another label
("the soup was cold but the service was lovely", "the service was lovely but the soup was cold"). No function of
the bag of words can tell twins apart, so a model that does well has learnt to use the positions.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

from conoscope.common.errors import CorpusError
from conoscope.corpora import bistro_words as words
from conoscope.corpora.base import GRAMMAR, Corpus, Example, Notes, require_split, stable_hash

SIZES = {"train": 10000, "validation": 1000, "test": 1000}
MOST_EXAMPLES = 50_000
SUBJECTS = tuple((aspect, subject) for aspect in words.ASPECTS for subject in aspect.subjects)
TWINS = 0.38
"""The share of draws that give twins; 2 * 0.38 / 1.38 = 55 % of the reviews."""

Draft = tuple[str, str]
"""A sentence with its marks, and its label."""
Writer = Callable[[Random], list[Draft]]
"""Draws a sentence, or twins: what it returns at once has the same bag of words."""


def bistro(split: str, seed: int = 0, size: int | None = None) -> Corpus:
    """Reviews with a negative or positive verdict."""
    names = {1: "negative", 2: "negative", 4: "positive", 5: "positive"}
    return _corpus("bistro", split, ("negative", "positive"), _opinions(names, strength=False), seed, size)


def bistro_stars(split: str, seed: int = 0, size: int | None = None) -> Corpus:
    """Reviews with one to five stars; an intensifier or a strong word makes it one or five."""
    names = {level: str(level) for level in range(1, 6)}
    return _corpus("bistro-stars", split, tuple(names.values()), _opinions(names, strength=True), seed, size)


def bistro_topics(split: str, classes: int = 20, seed: int = 0, size: int | None = None) -> Corpus:
    """Reviews whose label is the dish that was eaten, where another dish may be named as well."""
    most = len(words.DISHES) * len(words.STYLES)
    if not 2 <= classes <= most:
        raise CorpusError(f"cannot make bistro-topics of {classes} classes: expected 2 to {most}; for example classes=20")
    topics = _topics(classes)
    return _corpus(f"bistro-topics-{classes}", split, topics, lambda random: _meal(random, topics), seed, size)


def _corpus(name: str, split: str, labels: tuple[str, ...], write: Writer, seed: int, size: int | None) -> Corpus:
    require_split(name, split, SIZES)
    size = SIZES[split] if size is None else size
    if not 1 <= size <= MOST_EXAMPLES:
        raise CorpusError(f"cannot make {size} examples of {name}: expected 1 to {MOST_EXAMPLES}; for example size=1000")

    def read(_: Notes) -> Iterator[Example]:
        drafts = islice(_distinct(split, write, Random(f"{name}:{split}:{seed}")), size)
        return (_example(draft, f"{name}:{split}:{number}") for number, draft in enumerate(drafts, 1))

    return Corpus(name, split, labels, read, size, seed, marked_by=GRAMMAR)


def _distinct(split: str, write: Writer, random: Random) -> Iterator[Draft]:
    """Drafts of one split, no text twice; the split follows from the bag of words before any filler."""
    seen: set[str] = set()
    while True:
        drafts = write(random)
        if _split_of(drafts[0][0]) != split:
            continue
        before, after = _filler(random, words.OPENINGS), _filler(random, words.CLOSINGS)
        end = random.choice((".", ".", "!"))
        dressed = [(f"{before} {marked}{end} {after}".strip(), label) for marked, label in drafts]
        texts = {_plain(marked) for marked, _ in dressed}
        if seen.isdisjoint(texts):
            seen |= texts
            yield from dressed


def _split_of(marked: str) -> str:
    """Three sentences in five are for training; twins go together, and so does every seed."""
    bag = " ".join(sorted(word.strip(".,") for word in _plain(marked).split()))
    return ("train", "train", "train", "validation", "test")[stable_hash(bag) % 5]


def _example(draft: Draft, name: str) -> Example:
    marked, label = draft
    return Example(_plain(marked), label, None, tuple(word[0] in "*^" for word in marked.split()), name)


def _plain(marked: str) -> str:
    return marked.replace("*", "").replace("^", "")


def _filler(random: Random, frames: tuple[str, ...]) -> str:
    """A neutral sentence, two times in five."""
    if random.random() >= 0.4:
        return ""
    return random.choice(frames).format_map({slot: random.choice(choices) for slot, choices in words.SLOTS.items()})


def _opinions(names: dict[int, str], strength: bool) -> Writer:
    """A writer of opinions, whose levels (1 to 5, worst to best) are labelled by `names`."""

    def write(random: Random) -> list[Draft]:
        level = random.choice(list(names))
        opposite = random.choice([other for other in names if _side(other) != _side(level)])
        drafts = _opinion(random, level, opposite)
        return [(marked if strength else marked.replace("^", ""), names[decisive]) for marked, decisive in drafts]

    return write


def _opinion(random: Random, level: int, opposite: int) -> list[tuple[str, int]]:
    """One sentence of this level, or twins of this and the opposite level."""
    if random.random() < TWINS:
        frame, (one, other) = random.choice((_contrast, _contrast, _scope))(random, (level, opposite))
        return [(_weigh(frame, other, one), level), (_weigh(frame, one, other), opposite)]
    kind = random.random()
    if kind < 0.25:
        frame, (one, other) = _contrast(random, (level, opposite))
        return [(_weigh(frame, other, one), level)]
    if kind < 0.5:
        first, second = _clauses(random, (level, level))
        return [(random.choice(words.AGREEMENTS).format(first=first, second=second), level)]
    return [(_clauses(random, (level,))[0], level)]


def _weigh(frame: str, lesser: str, greater: str) -> str:
    """The frame with both opinions in it, where only the greater one keeps its marks."""
    return frame.format(lesser=_plain(lesser), greater=greater)


def _contrast(random: Random, levels: tuple[int, ...]) -> tuple[str, list[str]]:
    return random.choice(words.CONTRASTS), _clauses(random, levels)


def _scope(random: Random, levels: tuple[int, ...]) -> tuple[str, list[str]]:
    aspect = random.choice(words.ASPECTS)
    frame = random.choice(words.SCOPES).replace("{subject}", random.choice(aspect.subjects))
    return frame, [_phrase(random, aspect, level, softeners=("",)) for level in levels]


def _clauses(random: Random, levels: tuple[int, ...]) -> list[str]:
    """A clause for each level, each about another subject."""
    chosen = random.sample(SUBJECTS, len(levels))
    return [_clause(random, level, *about) for level, about in zip(levels, chosen, strict=True)]


def _clause(random: Random, level: int, aspect: words.Aspect, subject: str) -> str:
    kind = random.random()
    if kind < 0.2 and level in words.VERDICTS:
        return f"the {subject} {random.choice(words.VERDICTS[level])}"
    if kind < 0.4 and level in (2, 4):
        denied = random.choice(aspect.praise if level == 2 else aspect.blame)
        return f"the {subject} was {random.choice(words.NEGATIONS)} *{denied}"
    if kind < 0.6:
        return f"we found the {subject} {_phrase(random, aspect, level)}"
    return f"the {subject} {random.choice(words.VERBS)} {_phrase(random, aspect, level)}"


def _phrase(random: Random, aspect: words.Aspect, level: int, softeners: tuple[str, ...] = words.SOFTENERS) -> str:
    """An adjective with or without an adverb: strong or intensified at the ends of the scale, plain or softened within."""
    if level == 3:
        return random.choice(words.MIDDLING)
    plain, strong = (aspect.praise, aspect.high_praise) if level > 3 else (aspect.blame, aspect.harsh_blame)
    if level in (1, 5):
        intensified = f"^{random.choice(words.INTENSIFIERS)} *{random.choice(plain)}"
        return random.choice((intensified, f"*{random.choice(strong)}"))
    return f"{random.choice(softeners)}*{random.choice(plain)}"


def _side(level: int) -> int:
    """-1 for blame, 0 for neither, 1 for praise."""
    return (level > 3) - (level < 3)


def _topics(classes: int) -> tuple[str, ...]:
    """The first topics along the diagonals of dishes and styles, so that a few already differ in both words."""
    turns = (divmod(number, len(words.DISHES)) for number in range(classes))
    return tuple(f"{words.STYLES[(turn + dish) % len(words.STYLES)]} {words.DISHES[dish]}" for turn, dish in turns)


def _meal(random: Random, topics: tuple[str, ...]) -> list[Draft]:
    """One topic alone, or twins of two; a remark on something else follows."""
    one, other = random.sample(topics, 2)
    remark = _plain(_clauses(random, (random.choice((1, 2, 4, 5)),))[0])
    if random.random() >= TWINS:
        return [(f"{random.choice(words.MEALS).format(eaten=_marked(one))}. {remark}", one)]
    frame = f"{random.choice(words.CHOICES)}. {remark}"
    return [(frame.format(eaten=_marked(eaten), other=named), eaten) for eaten, named in ((one, other), (other, one))]


def _marked(topic: str) -> str:
    return " ".join(f"*{word}" for word in topic.split())
