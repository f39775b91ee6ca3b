"""Directionality: which subspaces a head reads and writes, and how directional its computation is.

A head's scores are x M xᵀ with M = W_Q W_Kᵀ, and it moves x_j by x_j M with M = W_V W_O. Every such M is A Bᵀ with factors of
few columns: singular values come from thin QRs of the factors, norms and traces from their Gram matrices.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture.batch import Batch
from conoscope.capture.trace import HeadWeights, Trace
from conoscope.quantities.base import quantity, reduction, some_examples
from conoscope.sums.drawing import Candidates, Chosen
from conoscope.sums.numeric import entropy_rank
from conoscope.sums.samples import Constant, names_of

MAPS = ("query-key", "value-output")
NUMBERS = ("effective_rank", "rank", "largest", "top_share", "skew_share")
"""The values computed for every M = A Bᵀ, in this order."""
MAP_NUMBERS = (*NUMBERS, "rank_with_transpose", "heads_rank")
"""The values computed for a product of weight matrices."""
SENTENCES = 8
"""The number of sentences whose scores are analysed."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Context manager that limits torch to one thread.

    For many small matrices: LAPACK splits each among all threads, which is slower, and far slower on a busy machine.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def singular_values(a: Float[Tensor, "*s n e"], b: Float[Tensor, "*s m e"]) -> Float[Tensor, "*s k"]:
    """The singular values of A Bᵀ that can differ from 0, largest first: those of R_A R_Bᵀ. NaN where A or B is not finite."""
    return _values_of(_triangle(a) @ _triangle(b).mT)


def _values_of(x: Float[Tensor, "*s n m"]) -> Float[Tensor, "*s k"]:
    core, finite = _finite(x)
    found: Tensor = torch.linalg.svdvals(core)
    return found.where(finite, torch.nan)


def values_with_transpose(a: Float[Tensor, "*s d e"], b: Float[Tensor, "*s d e"]) -> Float[Tensor, "*s k"]:
    """The singular values of A Bᵀ + B Aᵀ that can differ from 0, unordered: with [A B] = U R they are |λ| of R S Rᵀ, where S
    swaps A and B. NaN where A or B is not finite."""
    left, right = _triangle(torch.cat((a, b), dim=-1)).split(a.shape[-1], dim=-1)
    core, finite = _finite(left @ right.mT + right @ left.mT)
    found: Tensor = torch.linalg.eigvalsh(core)
    return found.abs().where(finite, torch.nan)


def _finite(x: Float[Tensor, "*s n m"]) -> tuple[Float[Tensor, "*s n m"], Bool[Tensor, "*s 1"]]:
    """The matrices, with 0 for those that hold NaN or infinity (not every LAPACK accepts these); and which are finite."""
    finite = x.isfinite().all(-1).all(-1)[..., None]
    return x.where(finite[..., None], 0.0), finite


def _triangle(x: Float[Tensor, "*s n e"]) -> Float[Tensor, "*s k e"]:
    found: Tensor = torch.linalg.qr(x, mode="r").R
    return found


def skew_share(a: Float[Tensor, "*s n e"], b: Float[Tensor, "*s n e"]) -> Float[Tensor, "*s"]:
    """‖M - Mᵀ‖² / (4 ‖M‖²) of M = A Bᵀ, from ‖M‖² = tr(AᵀA BᵀB) and tr(M²) = tr((BᵀA)²); the symmetric share is the rest."""
    return _skew(a.mT @ a, b.mT @ b, b.mT @ a)


def _skew(own: Float[Tensor, "*s e e"], other: Float[Tensor, "*s e e"], across: Float[Tensor, "*s e e"]) -> Float[Tensor, "*s"]:
    energy = (own * other).sum((-2, -1))
    again: Tensor = (across * across.mT).sum((-2, -1))
    return ((1 - again / energy) / 2).clamp(0, 1)


def tolerance(s: Float[Tensor, "*s k"], a: Tensor, b: Tensor, eps: float) -> Float[Tensor, "*s 1"]:
    """Below this a singular value of A Bᵀ is rounding: s₁ times the longest side times eps."""
    longest: int = max(*a.shape[-2:], *b.shape[-2:])
    return s.amax(-1, keepdim=True) * (longest * eps)


def numbers(
    a: Float[Tensor, "*s n e"], b: Float[Tensor, "*s m e"], eps: float, s: Float[Tensor, "*s k"] | None = None
) -> Float[Tensor, "*s numbers"]:
    """The values that NUMBERS names, of A Bᵀ (`s`: its singular values, if known); one that is not square has no skew part."""
    s = singular_values(a, b) if s is None else s
    skew = skew_share(a, b) if a.shape[-2] == b.shape[-2] else torch.full_like(s[..., 0], torch.nan)
    return _numbers_of(s, tolerance(s, a, b, eps), skew)


def _numbers_of(s: Float[Tensor, "*s k"], least: Float[Tensor, "*s 1"], skew: Float[Tensor, "*s"]) -> Float[Tensor, "*s numbers"]:
    """The values that NUMBERS names, from singular values; those up to `least` are rounding."""
    energy = s.square()
    rank = (s > least).sum(-1).double().where(s[..., 0].isfinite(), torch.nan)
    return torch.stack((entropy_rank(s), rank, s[..., 0], energy[..., 0] / energy.sum(-1), skew), dim=-1)


def rank_with_transpose(
    a: Float[Tensor, "*s d e"], b: Float[Tensor, "*s d e"], eps: float, s: Float[Tensor, "*s k"] | None = None
) -> Float[Tensor, "*s"]:
    """The rank of A Bᵀ + B Aᵀ. `s`: the singular values of A Bᵀ, if known.

    It has the rounding of two matrices: with twice the tolerance of one, its rank is at most twice the rank of one (Weyl).
    """
    least = 2 * tolerance(singular_values(a, b) if s is None else s, a, b, eps)
    values = values_with_transpose(a, b)
    return (values > least).sum(-1).double().where(values.isfinite().all(-1), torch.nan)


def precision(*weights: Tensor) -> float:
    """eps of the weights' own precision: single if every number fits into it.

    Half precision counts as single: its eps times a width of 768 is above 1, and every rank would be 0.
    """
    single = all(torch.equal(weight.float().double(), weight) for weight in weights)
    return torch.finfo(torch.float32 if single else torch.float64).eps


def factors(maps: HeadWeights, map: str) -> tuple[Tensor, Tensor] | None:
    """The factors A and B of each head's matrix A Bᵀ, shapes (h, d, e) and (h, d_out, e)."""
    a, b = (maps.query, maps.key) if map == "query-key" else (maps.value, columns(maps, "output"))
    if a is None or b is None:
        return None
    heads = max(len(a), len(b))
    return a.repeat_interleave(heads // len(a), dim=0), b.repeat_interleave(heads // len(b), dim=0)


def _side_by_side(x: Float[Tensor, "h d e"]) -> Float[Tensor, "d he"]:
    return x.transpose(0, 1).flatten(1)


def columns(maps: HeadWeights, space: str) -> Float[Tensor, "h d e"] | None:
    """The matrix of each head whose columns span a space: W_Q, W_K, W_V, or W_O transposed, since a head writes to its rows."""
    weight: Tensor | None = getattr(maps, space)
    return weight.mT if space == "output" and weight is not None else weight


@quantity(of=HeadWeights, sparse=True)
def map_numbers(maps: HeadWeights, map: str, width: str) -> Constant | None:
    """The values that MAP_NUMBERS names, of each head's matrix; or of the sum over heads, with the sum of the heads' ranks."""
    pair = factors(maps, map)
    if pair is None:
        return None
    eps = precision(*pair)

    def of_heads() -> Tensor:
        with one_thread():
            return _of_map(*pair, eps)

    by_head = maps.memo(("numbers", map), of_heads)
    if width == "head":
        return Constant.of(by_head)
    whole = _of_map(_side_by_side(pair[0])[None], _side_by_side(pair[1])[None], eps)
    whole[:, -1] = by_head[:, NUMBERS.index("rank")].sum()
    return Constant.of(whole)


def _of_map(a: Float[Tensor, "h d e"], b: Float[Tensor, "h d_out e"], eps: float) -> Float[Tensor, "h numbers"]:
    """The values that MAP_NUMBERS names, with NaN for the sum of ranks."""
    undefined = a.new_full((len(a),), torch.nan)
    s = singular_values(a, b)
    doubled = rank_with_transpose(a, b, eps, s) if a.shape[-2] == b.shape[-2] else undefined
    return torch.cat((numbers(a, b, eps, s), torch.stack((doubled, undefined), dim=-1)), dim=-1)


@quantity(of=HeadWeights, sparse=True)
@one_thread()
def map_values(maps: HeadWeights, map: str) -> Constant | None:
    """The singular values of each head's matrix."""
    pair = factors(maps, map)
    return None if pair is None else Constant.of(singular_values(*pair))


@one_thread()
def basis(w: Float[Tensor, "h d e"], eps: float) -> tuple[Float[Tensor, "h d k"], Int[Tensor, " h"]]:
    """An orthonormal basis of each column space, and its dimension, 0 if not finite; columns beyond the dimension are 0."""
    q, r = torch.linalg.qr(_finite(w)[0])
    u, s, _ = torch.linalg.svd(r, full_matrices=False)
    nonzero = s > tolerance(s, w, w, eps)
    return (q @ u) * nonzero[:, None], nonzero.sum(-1)


@quantity(of=HeadWeights, sparse=True)
@one_thread()
def space_angles(maps: HeadWeights, spaces: str) -> Constant | None:
    """The mean squared cosine of the principal angles between two spaces of each head, the smallest and the largest angle."""
    one, other = (columns(maps, space) for space in spaces.split("-"))
    if one is None or other is None:
        return None
    heads, eps = max(len(one), len(other)), precision(one, other)
    (u, dimension), (v, dimension_other) = (basis(w.repeat_interleave(heads // len(w), dim=0), eps) for w in (one, other))
    cosines = torch.linalg.svdvals(u.mT @ v)
    # An angle of less than a thousandth of a degree is rounding.
    cosines = cosines.where(cosines < 1 - 1e-10, 1.0)
    fewest = torch.minimum(dimension, dimension_other)
    ends = torch.stack((cosines[:, 0], cosines.gather(1, fewest.clamp_min(1)[:, None] - 1)[:, 0]), dim=-1)
    angles = torch.cat(((cosines.square().sum(-1) / fewest)[:, None], ends.acos().rad2deg()), dim=-1)
    return Constant.of(angles.where(fewest[:, None] > 0, torch.nan))


@quantity(of=HeadWeights, sparse=True)
def head_overlaps(maps: HeadWeights, space: str) -> Constant | None:
    """‖U_iᵀ U_j‖² of the bases of every two heads, divided by the smaller dimension: the mean squared cosine between them."""
    w = columns(maps, space)
    if w is None:
        return None
    u, dimension = basis(w, precision(w))
    flat = _side_by_side(u)
    products = (flat.mT @ flat).unflatten(0, (len(w), -1)).unflatten(2, (len(w), -1))
    return Constant.of(products.square().sum((1, 3)) / torch.minimum(dimension, dimension[:, None]))


def _sentences(batch: Batch) -> Candidates:
    every = torch.ones_like(batch.cls, dtype=torch.bool)
    return some_examples(batch, every, lambda index: names_of([batch.ids[row] for row in index.tolist()]), SENTENCES)


@reduction()
def scored(trace: Trace, at: Int[Tensor, " n"]) -> Float[Tensor, "n h 6 e e"] | None:
    """Of each head's queries A and keys B of some sentences, real tokens only, in double: R_A, R_B, AᵀA, BᵀB, BᵀA, and eps.

    Small matrices from which the values of the scores A Bᵀ follow: only these leave a GPU. The last one is filled with the
    rounding of the model's own precision.
    """
    if trace.query is None or trace.key is None:
        return None
    real = trace.batch.real[at][:, None, :, None]
    # One sentence at a time keeps the copies in float64 small.
    return torch.cat([_factors(trace.query[row], trace.key[row], real[place, None]) for place, row in enumerate(at.split(1))])


def _factors(
    query: Float[Tensor, "1 h t e"], key: Float[Tensor, "1 g t e"], real: Bool[Tensor, "1 1 t 1"]
) -> Float[Tensor, "1 h 6 e e"]:
    a, b = (x.double().where(real, 0.0) for x in (query, key))
    b = b.repeat_interleave(a.shape[1] // b.shape[1], dim=1)
    # A text may have fewer tokens than a head has coordinates: rows of zeros change no singular value.
    a, b = (torch.nn.functional.pad(x, (0, 0, 0, max(0, x.shape[-1] - x.shape[-2]))) for x in (a, b))
    products = a.mT @ a
    eps = torch.full_like(products, torch.finfo(torch.promote_types(query.dtype, torch.float32)).eps)
    if query.device.type != "cpu" and query.dtype != torch.float64:
        # Products in double are exact enough for single precision, and a GPU is slow at many QRs.
        none = torch.full_like(products, torch.nan)
        return torch.stack((none, none, products, b.mT @ b, b.mT @ a, eps), dim=2)
    with one_thread():
        return torch.stack((_triangle(a), _triangle(b), products, b.mT @ b, b.mT @ a, eps), dim=2)


def _root(products: Float[Tensor, "*s e e"]) -> Float[Tensor, "*s e e"]:
    """R with RᵀR = AᵀA, up to the rounding of the products."""
    finite, defined = _finite(products)
    values, vectors = torch.linalg.eigh(finite)
    root: Tensor = values.clamp_min(0).sqrt()[..., None] * vectors.mT
    return root.where(defined[..., None], torch.nan)


def _score_numbers(values: Float[Tensor, "l n h 6 e e"], batch: Batch, chosen: Chosen) -> Float[Tensor, "l n values"]:
    """The values that NUMBERS names, of each head of each sentence, flattened."""
    one, other, own, others, across, eps = values.unbind(3)
    longest = batch.length[chosen.at].clamp_min(values.shape[-1])[None, :, :, None]
    with one_thread():
        if bool(one.isnan().all()):
            one, other = _root(own), _root(others)
        s = _values_of(one @ other.mT)
    least = s.amax(-1, keepdim=True) * longest * eps[..., :1, 0]
    return _numbers_of(s, least, _skew(own, others, across)).flatten(2)


@quantity(sample=_sentences, sparse=True, finish=_score_numbers, postponed=True)
def score_numbers(scored: Float[Tensor, "l n h 6 e e"]) -> Float[Tensor, "l n h 6 e e"]:
    """The values that NUMBERS names, of each head's scores Q Kᵀ, one item a sentence; `finish` computes them on the CPU, which is
    faster at many small matrices."""
    return scored
