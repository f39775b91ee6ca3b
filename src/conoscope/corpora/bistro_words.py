"""The words and sentence frames of the bistro corpora; `conoscope.corpora.bistro` combines them.

A word that begins with * helps to decide the label; one that begins with ^ decides only its strength.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Aspect:
    """Subjects that share adjectives, and these adjectives.

    Plain adjectives take an intensifier or a negation; strong ones are at the end of the scale already.
    """

    subjects: tuple[str, ...]
    praise: tuple[str, ...]
    blame: tuple[str, ...]
    high_praise: tuple[str, ...]
    harsh_blame: tuple[str, ...]


ASPECTS = (
    Aspect(
        ("soup", "salad", "bread", "pasta", "fish", "steak", "rice", "dessert", "cake", "cheese"),
        ("tasty", "fresh", "good", "lovely", "delicious", "tempting"),
        ("cold", "bland", "bad", "stale", "greasy", "tasteless"),
        ("superb", "divine"),
        ("awful", "disgusting"),
    ),
    Aspect(
        ("waiter", "waitress", "service", "cook", "owner", "host"),
        ("kind", "friendly", "attentive", "polite", "helpful", "good"),
        ("rude", "slow", "careless", "grumpy", "clumsy", "bad"),
        ("wonderful", "fantastic"),
        ("horrible", "appalling"),
    ),
    Aspect(
        ("room", "terrace", "table", "hall", "garden", "bar"),
        ("cosy", "charming", "clean", "cheerful", "pretty", "lovely"),
        ("dirty", "noisy", "gloomy", "cramped", "shabby", "ugly"),
        ("gorgeous", "stunning"),
        ("hideous", "filthy"),
    ),
    Aspect(
        ("evening", "meal", "menu", "lunch", "dinner", "brunch"),
        ("pleasant", "enjoyable", "good", "fine", "lovely", "memorable"),
        ("dull", "disappointing", "dreary", "poor", "bad", "tedious"),
        ("brilliant", "perfect"),
        ("dreadful", "terrible"),
    ),
)
MIDDLING = ("*average", "*ordinary", "*acceptable", "*passable", "*unremarkable")

INTENSIFIERS = ("very", "really", "truly", "extremely", "incredibly")
SOFTENERS = ("", "", "", "", "quite ", "rather ")
NEGATIONS = ("*not", "*not", "*far *from")
VERBS = ("was", "was", "was", "seemed", "proved")
# Complete predicates, by level from 1 to 5.
VERDICTS = {
    2: ("*ruined the day", "*annoyed us", "*upset everyone", "*spoiled the mood", "*bored my friends"),
    3: ("was *neither *good *nor *bad", "left us *indifferent"),
    4: ("*saved the day", "*delighted us", "*pleased everyone", "*charmed us", "*impressed my friends"),
}

# Two clauses of opposite opinions: the greater one decides.
CONTRASTS = (
    "{lesser} *but {greater}",
    "{lesser}, *but {greater}",
    "{lesser}, *yet {greater}",
    "{lesser}. *however, {greater}",
    "*although {lesser}, {greater}",
    "*though {lesser}, {greater}",
    "*while {lesser}, {greater}",
    "{greater}, *even *though {lesser}",
)
# Two phrases of opposite opinions about one subject: the greater one decides.
SCOPES = (
    "the {subject} was *not {lesser} *but {greater}",
    "the {subject} was {greater} and *not {lesser}",
    "the {subject} was {greater}, *not {lesser}",
    "the {subject} was {greater} *instead *of {lesser}",
    "the {subject} used to be {lesser} and is *now {greater}",
    "the {subject} was said to be {lesser} *but *proved {greater}",
    "the {subject} looked {lesser}, *but in truth *was {greater}",
)
AGREEMENTS = ("{first} and {second}", "{first}, and {second}", "{first}. also, {second}")

# Neutral sentences; each has a word that no opinion contains, so that every review has one parse.
OPENINGS = (
    "we came on a {day}.",
    "it was a {day} in {month}.",
    "i was there with my {companion}.",
    "my {companion} had booked for {number}.",
    "it rained outside.",
)
CLOSINGS = (
    "we sat by the {spot}.",
    "they gave us seats near the {spot}.",
    "this was our {ordinal} visit.",
    "we stayed until {number} o'clock.",
    "we paid by card.",
)
SLOTS = {
    "day": ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    "month": ("march", "june", "august", "october", "december"),
    "companion": ("sister", "brother", "mother", "father", "boss", "neighbour"),
    "number": ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    "spot": ("window", "door", "stairs", "fireplace", "counter"),
    "ordinal": ("first", "second", "third", "fourth"),
}

STYLES = ("lamb", "chicken", "beef", "salmon", "mushroom", "lentil", "prawn", "pumpkin", "duck", "spinach")
DISHES = (
    *("curry", "pie", "stew", "risotto", "burger", "lasagne", "pizza", "sandwich", "omelette", "gratin"),
    *("casserole", "taco", "tart", "ramen", "broth", "paella", "tagine", "gumbo", "quiche", "biryani"),
)
MEALS = (
    "i had the {eaten}",
    "i ordered the {eaten}",
    "my plate was the {eaten}",
    "they brought me the {eaten}",
)
# Two topics, one of which was eaten.
CHOICES = (
    "i wanted the {other} *but *had the {eaten}",
    "i came for the {other} *but they *brought me the {eaten}",
    "*instead of the {other} i *ordered the {eaten}",
    "i *ordered the {eaten} *instead of the {other}",
    "they *brought me the {eaten} and *not the {other}",
    "the {other} was sold out, *so i *had the {eaten}",
    "my guest had the {other} while *i *had the {eaten}",
)
