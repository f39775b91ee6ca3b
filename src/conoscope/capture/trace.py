"""Trace: the tensors of one layer for one batch, recorded while the model runs."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from conoscope.capture import fused
from conoscope.capture.batch import Batch, Memo
from conoscope.capture.draws import drawn_queries
from conoscope.capture.normalization import Norm, Residual
from conoscope.capture.reductions import REDUCTIONS, AttentionChunk
from conoscope.capture.site_sums import SiteSums, site_sums
from conoscope.capture.wiring import Projection
from conoscope.sums.numeric import at_least_single

SITES = ("hidden", "input", "query", "key", "value", "context", "output", "forward")
"""The sites of which a trace holds vectors."""
Attend = Callable[[Int[Tensor, " n"], int], Float[Tensor, "n h s s"]]


@dataclass(frozen=True)
class Trace(Memo):
    """The tensors of one layer for one batch. Layer 0 has the embeddings in `hidden` and nothing else.

    `input` is the input of the projections to queries, keys and values; `output` is after W_O, before the residual;
    `hidden` is the layer's output as transformers counts it (in pre-norm models the last one is after the final norm), `before`
    that of the layer before, and `forward` what the feed-forward part adds. `added` names the tensor, `before` or `input`, to
    which the output is added, and `norm` normalises that sum. Keys are after rotary positions; with grouped queries there are
    fewer keys than queries. `masks`: by which masks the vectors of each site will be summed.
    In full mode only: `visible`, how many keys each query may see; `weights`, if they are small enough to keep, or else
    `reductions`, computed from their chunks; `attend`, which recomputes the weights of some examples.
    """

    layer: int
    batch: Batch
    hidden: Float[Tensor, "b t d"] | None = None
    input: Float[Tensor, "b t d_in"] | None = None
    query: Float[Tensor, "b h t e"] | None = None
    key: Float[Tensor, "b g t e"] | None = None
    value: Float[Tensor, "b g t e_v"] | None = None
    weights: Float[Tensor, "b h t t"] | None = None
    visible: Int[Tensor, "b #t"] | None = None
    reductions: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    attend: Attend | None = None
    context: Float[Tensor, "b h t e_v"] | None = None
    output: Float[Tensor, "b t d_out"] | None = None
    before: Float[Tensor, "b t d_before"] | None = None
    forward: Float[Tensor, "b t d"] | None = None
    projection: Projection | None = None
    added: Residual | None = None
    norm: Norm | None = None
    masks: Mapping[str, Collection[str]] = field(default_factory=dict, repr=False, compare=False)

    def reduction(self, name: str) -> Tensor | None:
        """One of REDUCTIONS of the weights; None if there are no weights."""
        if name in self.reductions or self.weights is None:
            return self.reductions.get(name)
        weights = self.weights
        reduced: Tensor = self.memo(("reduction", name), lambda: REDUCTIONS[name].compute(AttentionChunk(weights, self.batch)))
        return reduced

    def paired(self, tokens: Int[Tensor, " n"]) -> Float[Tensor, "n h"] | None:
        """The weights of some keys, given as flat indices in the batch, from the query that is sampled for each; None without
        weights."""
        length = self.batch.real.shape[1]

        def compute() -> tuple[Tensor, Tensor, Tensor]:
            rows, keys = tokens // length, tokens % length
            return rows, drawn_queries(self.batch)[rows, keys], keys

        # The same in every layer.
        rows, queries, keys = self.batch.memo(("paired", id(tokens)), lambda: (tokens, compute()))[1]
        if self.weights is not None:
            return at_least_single(self.weights[rows, :, queries, keys])
        by_key = self.reduction("paired")
        return None if by_key is None else by_key[rows, :, keys]

    def maps(self, examples: Int[Tensor, " n"], size: int | None = None) -> Float[Tensor, "n h s s"] | None:
        """The attention maps of some examples, of all tokens or of the first `size`; None if there are no weights."""
        size = self.batch.real.shape[1] if size is None else size
        if self.weights is not None:
            return self.weights[examples, :, :size, :size]
        return None if self.attend is None else self.attend(examples, size)

    @property
    def residual(self) -> Float[Tensor, "b t d_res"] | None:
        """The tensor to which the attention output is added; None if it was not found."""
        residual: Tensor | None = None if self.added is None else getattr(self, self.added)
        return residual

    @property
    def goes_on(self) -> bool:
        """Whether the projections read the output of the layer before itself (the same memory)."""
        before, now = self.before, self.input
        return before is not None and now is not None and before.data_ptr() == now.data_ptr() and before.shape == now.shape

    @property
    def sites(self) -> list[str]:
        """The sites that the layer has; `input` only if it is not the output of the layer before."""
        return [site for site in SITES if getattr(self, site) is not None and not (site == "input" and self.goes_on)]

    def sums(self, site: str) -> SiteSums | None:
        """What a kernel sums of a site's vectors, of all sites at once; None where it does not run."""

        def compute() -> dict[str, SiteSums]:
            by_token = {site: x.transpose(1, 2) for site in self.sites if (x := self.vectors(site)) is not None}
            return site_sums(by_token, self.batch, self.masks)

        if not fused.runs_on(self.batch.real.device, torch.float32):
            return None
        found: dict[str, SiteSums] = self.memo("site sums", compute)
        return found.get(site)

    def norms(self, site: str) -> Float[Tensor, "b t h"]:
        """‖x‖ of every vector of a site by head, in at least single precision; cached."""

        def compute() -> Tensor:
            if (sums := self.sums(site)) is not None:
                return sums.lengths
            x = self.vectors(site)
            assert x is not None
            # By token first: the heads of a token are contiguous, so this order is twice as fast.
            return torch.linalg.vector_norm(at_least_single(x).transpose(1, 2), dim=-1)  # type: ignore[no-any-return]

        norms: Tensor = self.memo(("norms", site, "head"), compute)
        return norms

    def largest(self) -> Float[Tensor, "b t"] | None:
        """The largest norm of each token's vectors, over the sites and heads that no kernel checks: NaN or infinite if any of
        them is; None if kernels check all."""
        norms = [self.norms(site) for site in self.sites if self.sums(site) is None]
        return (torch.cat(norms, dim=-1) if len(norms) > 1 else norms[0]).amax(-1) if norms else None

    def vectors(self, site: str) -> Float[Tensor, "b h t e"] | None:
        """The vectors of a site by head; a site without heads counts as one head."""
        x: Tensor | None = getattr(self, site)
        return x[:, None] if x is not None and x.ndim == 3 else x

    def whole(self, site: str) -> Float[Tensor, "b t d"] | None:
        """The vectors of a site, the heads concatenated."""
        x: Tensor | None = getattr(self, site)
        return x.transpose(1, 2).flatten(2) if x is not None and x.ndim == 4 else x


@dataclass(frozen=True)
class PooledOutput:
    """The pooled output of one layer, one vector per text, and the model's prediction.

    It is what the classifier reads, if there is one: the vector of the classifying token (of [CLS], if that is unknown), or the
    mean over tokens if the model pools so; or the requested pooling. `there` is a mask of the examples that have one. `predicted`
    is -1 for a model that does not classify. `maps` has the attention maps of the requested heads.
    """

    layer: int
    layers: int
    batch: Batch
    there: Bool[Tensor, " b"]
    predicted: Int[Tensor, " b"]
    classes: int
    hidden: Float[Tensor, "b d"] | None = None
    key: Float[Tensor, "b d_key"] | None = None
    value: Float[Tensor, "b d_value"] | None = None
    maps: Mapping[int, Float[Tensor, "b t t"]] | None = None


@dataclass(frozen=True)
class HeadWeights(Memo):
    """The weight matrices of one layer by head: x W_Q, x W_K, x W_V for the input x of the projections, and W_O after that.

    None if a matrix was not found, or the function is not linear (queries that are normalised). `value_bias` and `output_bias`
    are added.
    """

    layer: int
    query: Float[Tensor, "h d e"] | None
    key: Float[Tensor, "g d e"] | None
    value: Float[Tensor, "g d e_v"] | None
    output: Float[Tensor, "h e_v d_out"] | None
    value_bias: Float[Tensor, "g e_v"] | None = None
    output_bias: Float[Tensor, " d_out"] | None = None
