"""Statement: what a source says, in our own words, and the claims of studies that test it."""

from collections.abc import Mapping
from dataclasses import dataclass

FOSSE = "L. Fosse, D.-H. Nguyen, P. Sébillot, G. Gravier: Géométrie de l'auto-attention en classification, TALN 2023"
SOURCES: Mapping[str, str] = {
    "000": f"{FOSSE}: abstract",
    "001": f"{FOSSE}: slides",
    "002": "N. Baskiotis, S. Rivaud, B. Piwowarski, L. Soulier: AMAL, practical 9 on self-attention, 2024",
    "003": "M. Bonino, G. Ghione, G. Cirrincione: The geometry of BERT, 2025: summary, abstract and captions",
    "004": "G. Kobayashi, T. Kuribayashi, S. Yokoi, K. Inui: Self-attention is not only a weight, ACL Student Research Workshop "
    "2020: slides",
}
"""The sources by number: what could be read of them. The Fosse papers of 2023 and Bonino's paper themselves could not."""
Pairs = tuple[tuple[str, str], ...]
"""Claims of studies: (study, claim)."""


@dataclass(frozen=True)
class Statement:
    """What a source says, and where. Either `claims` test it, or `untestable` says why nothing here can.

    `cases`: a part of the names of the cases that the statement is about, such as "hatexplain"; the others do not count. A source
    may also ask, and leave the answer open: then `says` is a question, and the claims are what we expect. `figures` are those
    that the source prints with it: they stand beside the statement, and no standing is of them.
    """

    source: str
    place: str
    says: str
    claims: Pairs = ()
    untestable: str = ""
    cases: str = ""
    figures: str = ""

    @property
    def asks(self) -> bool:
        """Whether the source asks a question here."""
        return self.says.endswith("?")


def of(study: str, *claims: str) -> Pairs:
    """Pairs of one study with each of the claims."""
    return tuple((study, claim) for claim in claims)
