"""Triton kernels of vectors: norms, and sums over the tokens of a text, in one pass each, without arrays in between. Imported on
a GPU only.

Every sum is accumulated in float32, whatever the precision of the model.
"""

import triton
import triton.language as tl


@triton.jit
def _site(
    site, X0, X1, X2, X3, X4, X5, X6, X7,
    b0, t0, h0, e0, b1, t1, h1, e1, b2, t2, h2, e2, b3, t3, h3, e3,
    b4, t4, h4, e4, b5, t5, h5, e5, b6, t6, h6, e6, b7, t7, h7, e7,
):  # fmt: skip
    """The tensor of one of eight sites, and its strides."""
    x, sb, st, sh, se = X0, b0, t0, h0, e0
    if site == 1:
        x, sb, st, sh, se = X1, b1, t1, h1, e1
    if site == 2:
        x, sb, st, sh, se = X2, b2, t2, h2, e2
    if site == 3:
        x, sb, st, sh, se = X3, b3, t3, h3, e3
    if site == 4:
        x, sb, st, sh, se = X4, b4, t4, h4, e4
    if site == 5:
        x, sb, st, sh, se = X5, b5, t5, h5, e5
    if site == 6:
        x, sb, st, sh, se = X6, b6, t6, h6, e6
    if site == 7:
        x, sb, st, sh, se = X7, b7, t7, h7, e7
    return x, sb, st, sh, se


@triton.jit
def _block(text, inside, begin, T, st, BT: tl.constexpr):
    """The vectors of some tokens, by head."""
    t = begin + tl.arange(0, BT)[:, None, None]
    return tl.load(text[None, :, :] + t.to(tl.int64) * st, mask=(t < T) & inside[None, :, :], other=0.0)


@triton.jit
def vector_sums(
    X0, X1, X2, X3, X4, X5, X6, X7, KEEP, FIRST, REAL, LENGTHS, WHOLE, TOTALS, SPREADS, BAD,
    b0, t0, h0, e0, b1, t1, h1, e1, b2, t2, h2, e2, b3, t3, h3, e3,
    b4, t4, h4, e4, b5, t5, h5, e5, b6, t6, h6, e6, b7, t7, h7, e7,
    B, T, H, E, PARTS,
    MASKS: tl.constexpr, BH: tl.constexpr, BE: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """Of one text at one site: the norms of its vectors, by head and whole; a flag if one of a real token is not finite; and of
    the tokens that one mask keeps the sums of x / ‖x‖ by head, of x / ‖x‖ of whole vectors and of x, and Σ‖x - mean‖² by head.

    `PARTS` has MASKS + 1 bits for each site: one for each mask by which it is summed, and the last if by none. A text has a
    program for each bit.

    The spread is summed by blocks of tokens, of the differences to the mean of the blocks before, which begins at the first
    vector that counts. So if all are the same it is exactly 0, and no more than one block can cancel.
    """
    program, b = tl.program_id(0), tl.program_id(1)
    part, pair, before = 0, 0, 0
    for bit in tl.static_range(8 * (MASKS + 1)):
        asked = (PARTS >> bit) & 1
        part = tl.where((asked > 0) & (before == program), bit, part)
        if bit % (MASKS + 1) != MASKS:
            pair += tl.where(before < program, asked, 0)
        before += asked
    site, mask = part // (MASKS + 1), part % (MASKS + 1)
    summed = mask < MASKS
    # The first part of a site stores what is the same for all masks.
    stores = ((PARTS >> (site * (MASKS + 1))) & ((1 << mask) - 1)) == 0
    x, sb, st, sh, se = _site(
        site, X0, X1, X2, X3, X4, X5, X6, X7,
        b0, t0, h0, e0, b1, t1, h1, e1, b2, t2, h2, e2, b3, t3, h3, e3,
        b4, t4, h4, e4, b5, t5, h5, e5, b6, t6, h6, e6, b7, t7, h7, e7,
    )  # fmt: skip
    h, e = tl.arange(0, BH), tl.arange(0, BE)
    inside = (h[:, None] < H) & (e[None, :] < E)
    text = x + b.to(tl.int64) * sb + h[:, None] * sh + e[None, :] * se
    keeps = KEEP + (mask * B + b).to(tl.int64) * T
    rows = (site * B + b).to(tl.int64) * T
    first = tl.zeros([BH, BE], tl.float32)
    if summed:
        place = tl.load(FIRST + mask * B + b).to(tl.int64)
        first = tl.load(text + place * st, mask=inside, other=0.0).to(tl.float32)
    tiny = 1.1754943508222875e-38
    units = tl.zeros([BH, BE], tl.float32)
    whole = tl.zeros([BH, BE], tl.float32)
    total = tl.zeros([BH, BE], tl.float32)
    mean = tl.zeros([BH, BE], tl.float32)
    spread = tl.zeros([BH, BE], tl.float32)
    count = 0.0
    bad = tl.zeros([BT], tl.int32)
    coming = _block(text, inside, 0, T, st, BT)
    for begin in range(0, T, BT):
        t = begin + tl.arange(0, BT)
        there = t < T
        v = coming.to(tl.float32)
        # Read while this block is summed.
        coming = _block(text, inside, begin + BT, T, st, BT)
        squares = tl.sum(v * v, 2)
        by_head, of_all = tl.sqrt(squares), tl.sqrt(tl.sum(squares, 1))
        if stores:
            real = tl.load(REAL + b.to(tl.int64) * T + t, mask=there, other=0.0)
            # Neither NaN nor infinity is below infinity.
            bad = bad | ((real > 0) & ~(of_all < float("inf"))).to(tl.int32)
            tl.store(LENGTHS + (rows + t[:, None]) * H + h[None, :], by_head, mask=there[:, None] & (h[None, :] < H))
            tl.store(WHOLE + rows + t, of_all, mask=there)
        if summed:
            keep = tl.load(keeps + t, mask=there, other=0.0)
            kept = (keep > 0)[:, None, None]
            new = tl.sum(keep, 0)
            if new < BT:
                v = tl.where(kept, v, 0.0)
            units += tl.sum(v * (1.0 / tl.maximum(by_head, tiny))[:, :, None], 0)
            whole += tl.sum(v * (1.0 / tl.maximum(of_all, tiny))[:, None, None], 0)
            total += tl.sum(v, 0)
            apart = v - first[None, :, :] - mean[None, :, :]
            if new < BT:
                apart = tl.where(kept, apart, 0.0)
            step = tl.sum(apart, 0)
            count += new
            share = 1.0 / tl.maximum(count, 1.0)
            mean += step * share
            spread += tl.sum(apart * apart, 0) - step * step * share
    # Always 0 if another program of the site stores.
    if tl.max(bad, 0) > 0:
        tl.atomic_max(BAD + b, 1)
    if summed:
        row = (pair * B + b).to(tl.int64)
        into = TOTALS + row * 3 * H * E + h[:, None] * E + e[None, :]
        tl.store(into, units, mask=inside)
        tl.store(into + H * E, whole, mask=inside)
        tl.store(into + 2 * H * E, total, mask=inside)
        tl.store(SPREADS + row * H + h, tl.sum(spread, 1), mask=h < H)


@triton.jit
def head_grams(
    V, AT, PRODUCTS, GRAM, vb, vh, vt, ve, N, KEYS, H, GROUP,
    E: tl.constexpr, BE: tl.constexpr, BN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """f_h · f_g of some tokens and two heads, from the products of the heads' W_O: v_h (W_h W_gᵀ) v_gᵀ."""
    pair = tl.program_id(1)
    h, g = pair // H, pair % H
    if h <= g:
        n, e, f = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BE), tl.arange(0, BE)
        token = tl.load(AT + n, mask=n < N, other=0).to(tl.int64)
        text = V + (n // KEYS).to(tl.int64)[:, None] * vb + token[:, None] * vt + e[None, :] * ve
        inside = (n[:, None] < N) & (e[None, :] < E)
        v = tl.load(text + (h // GROUP) * vh, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(text + (g // GROUP) * vh, mask=inside, other=0.0).to(tl.float32)
        product = tl.load(
            PRODUCTS + (h * E + e[:, None]) * H * E + g * E + f[None, :], mask=(e[:, None] < E) & (f[None, :] < E), other=0.0
        )
        dots = tl.sum(tl.dot(v, product, input_precision=PRECISION) * w, 1)
        into = GRAM + n.to(tl.int64) * H * H
        tl.store(into + h * H + g, dots, mask=n < N)
        tl.store(into + g * H + h, dots, mask=n < N)


@triton.jit
def weighted_vectors(
    V, AT, WEIGHTS, PROJECTION, OUT, vb, vh, vt, ve, wb, wh, wt, N, T, H, GROUP, D,
    E: tl.constexpr, BE: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Σ_h α_h v_h W_h of some tokens, given as flat indices in the batch."""
    n, d, e = tl.program_id(0) * BN + tl.arange(0, BN), tl.program_id(1) * BD + tl.arange(0, BD), tl.arange(0, BE)
    place = tl.load(AT + n, mask=n < N, other=0).to(tl.int64)
    b, t = place // T, place % T
    text = V + (b * vb + t * vt)[:, None] + e[None, :] * ve
    inside = (n[:, None] < N) & (e[None, :] < E)
    sums = tl.zeros([BN, BD], tl.float32)
    for h in range(H):
        v = tl.load(text + (h // GROUP) * vh, mask=inside, other=0.0).to(tl.float32)
        weights = tl.load(WEIGHTS + b * wb + t * wt + h * wh, mask=n < N, other=0.0)
        rows = tl.load(
            PROJECTION + (h * E + e[:, None]).to(tl.int64) * D + d[None, :], mask=(e[:, None] < E) & (d[None, :] < D), other=0.0
        )
        sums += tl.dot(v * weights[:, None], rows, input_precision=PRECISION)
    tl.store(OUT + n.to(tl.int64)[:, None] * D + d[None, :], sums, mask=(n[:, None] < N) & (d[None, :] < D))


@triton.jit
def summed_norms(
    WEIGHTS, GRAM, REAL, OUT, wb, wh, wt, wk, T, H, KEYS, BH: tl.constexpr, BI: tl.constexpr,
):  # fmt: skip
    """The mean over real queries of ‖Σ_h α_h f_h‖ of one key, from the weights α and the Gram matrix of the heads' f."""
    k, b = tl.program_id(0), tl.program_id(1)
    h, g = tl.arange(0, BH), tl.arange(0, BH)
    gram = tl.load(
        GRAM + (b * KEYS + k).to(tl.int64) * H * H + h[:, None] * H + g[None, :],
        mask=(h[:, None] < H) & (g[None, :] < H),
        other=0.0,
    )
    total = tl.zeros([BI], tl.float32)
    count = tl.zeros([BI], tl.float32)
    for begin in range(0, T, BI):
        i = begin + tl.arange(0, BI)
        at = b.to(tl.int64) * wb + h[None, :].to(tl.int64) * wh + i[:, None].to(tl.int64) * wt + k * wk
        weights = tl.load(WEIGHTS + at, mask=(i[:, None] < T) & (h[None, :] < H), other=0.0)
        real = tl.load(REAL + b.to(tl.int64) * T + i, mask=i < T, other=0.0)
        squares = tl.sum(tl.dot(weights, gram, input_precision="ieee") * weights, 1)
        total += tl.where(real > 0, tl.sqrt(tl.maximum(squares, 0.0)), 0.0)
        count += real
    tl.store(OUT + b * KEYS + k, tl.sum(total, 0) / tl.maximum(tl.sum(count, 0), 1.0))


@triton.jit
def transformed_norms(
    V, GRAM, OUT, vb, vh, vt, ve, T, H, GROUP,
    E: tl.constexpr, BE: tl.constexpr, BM: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """‖v W_O‖ of a block of tokens of one head, from the Gram matrix of its rows: √(v W_O W_Oᵀ vᵀ)."""
    blocks = tl.cdiv(T, BM)
    block, bh = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    b, h = bh // H, bh % H
    t, e, f = block * BM + tl.arange(0, BM), tl.arange(0, BE), tl.arange(0, BE)
    v = tl.load(
        V + b.to(tl.int64) * vb + (h // GROUP) * vh + t[:, None].to(tl.int64) * vt + e[None, :] * ve,
        mask=(t[:, None] < T) & (e[None, :] < E),
        other=0.0,
    ).to(tl.float32)
    gram = tl.load(GRAM + h * E * E + e[:, None] * E + f[None, :], mask=(e[:, None] < E) & (f[None, :] < E), other=0.0)
    squares = tl.sum(tl.dot(v, gram, input_precision=PRECISION) * v, 1)
    tl.store(OUT + (b.to(tl.int64) * H + h) * T + t, tl.sqrt(tl.maximum(squares, 0.0)), mask=t < T)
