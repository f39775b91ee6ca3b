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
def vector_lengths(
    X0, X1, X2, X3, X4, X5, X6, X7, REAL, LENGTHS, WHOLE, BAD,
    b0, t0, h0, e0, b1, t1, h1, e1, b2, t2, h2, e2, b3, t3, h3, e3,
    b4, t4, h4, e4, b5, t5, h5, e5, b6, t6, h6, e6, b7, t7, h7, e7,
    B, T, H, E, BH: tl.constexpr, BE: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """The norms of some tokens' vectors at one site, by head and whole; and a flag for each text that has one that is not
    finite."""
    block, b, site = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    x, sb, st, sh, se = _site(
        site, X0, X1, X2, X3, X4, X5, X6, X7,
        b0, t0, h0, e0, b1, t1, h1, e1, b2, t2, h2, e2, b3, t3, h3, e3,
    b4, t4, h4, e4, b5, t5, h5, e5, b6, t6, h6, e6, b7, t7, h7, e7,
    )  # fmt: skip
    t, h, e = block * BT + tl.arange(0, BT), tl.arange(0, BH), tl.arange(0, BE)
    at = t[:, None, None].to(tl.int64) * st + h[None, :, None] * sh + e[None, None, :] * se
    inside = (t[:, None, None] < T) & (h[None, :, None] < H) & (e[None, None, :] < E)
    v = tl.load(x + b.to(tl.int64) * sb + at, mask=inside, other=0.0).to(tl.float32)
    squares = tl.sum(v * v, 2)
    whole = tl.sqrt(tl.sum(squares, 1))
    rows = (site * B + b).to(tl.int64) * T + t
    tl.store(LENGTHS + rows[:, None] * H + h[None, :], tl.sqrt(squares), mask=(t[:, None] < T) & (h[None, :] < H))
    tl.store(WHOLE + rows, whole, mask=t < T)
    real = tl.load(REAL + b.to(tl.int64) * T + t, mask=t < T, other=0.0)
    # Neither NaN nor infinity is below infinity.
    bad = tl.max(tl.where((real > 0) & ~(whole < float("inf")), 1, 0), 0)
    if bad > 0:
        tl.atomic_max(BAD + b, 1)


@triton.jit
def vector_sums(
    X0, X1, X2, X3, X4, X5, X6, X7, KEEP, FIRST, LENGTHS, WHOLE, TOTALS, SPREADS,
    b0, t0, h0, e0, b1, t1, h1, e1, b2, t2, h2, e2, b3, t3, h3, e3,
    b4, t4, h4, e4, b5, t5, h5, e5, b6, t6, h6, e6, b7, t7, h7, e7,
    B, T, H, E, WANTED, MASKS: tl.constexpr, BE: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """Of one head of one text at one site, for each mask: the sums over tokens of x / ‖x‖ by head, of x / ‖x‖ of whole vectors
    and of x, and Σ‖x - mean‖². `WANTED` has a bit for each pair of site and mask: only those are computed and stored.

    Sums run over blocks of tokens side by side and are joined at the end. The spread is Welford's, of the differences to the
    first vector that counts: if all are the same, it is exactly 0.
    """
    head, b, site = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    x, sb, st, sh, se = _site(
        site, X0, X1, X2, X3, X4, X5, X6, X7,
        b0, t0, h0, e0, b1, t1, h1, e1, b2, t2, h2, e2, b3, t3, h3, e3,
    b4, t4, h4, e4, b5, t5, h5, e5, b6, t6, h6, e6, b7, t7, h7, e7,
    )  # fmt: skip
    e = tl.arange(0, BE)
    inside = e < E
    text = x + b.to(tl.int64) * sb + head * sh + e * se
    rows = (site * B + b).to(tl.int64) * T
    tiny = 1.1754943508222875e-38
    for mask in tl.static_range(MASKS):
        if (WANTED >> (site * MASKS + mask)) & 1:
            place = tl.load(FIRST + mask * B + b).to(tl.int64)
            first = tl.load(text + place * st, mask=inside, other=0.0).to(tl.float32)
            units = tl.zeros([BT, BE], tl.float32)
            whole = tl.zeros([BT, BE], tl.float32)
            total = tl.zeros([BT, BE], tl.float32)
            mean = tl.zeros([BT, BE], tl.float32)
            spread = tl.zeros([BT, BE], tl.float32)
            count = tl.zeros([BT], tl.float32)
            for begin in range(0, T, BT):
                t = begin + tl.arange(0, BT)
                keep = tl.load(KEEP + (mask * B + b).to(tl.int64) * T + t, mask=t < T, other=0.0)
                kept = (keep[:, None] > 0) & inside[None, :]
                v = tl.load(text[None, :] + t[:, None].to(tl.int64) * st, mask=kept, other=0.0).to(tl.float32)
                by_head = tl.load(LENGTHS + (rows + t) * H + head, mask=t < T, other=1.0)
                of_all = tl.load(WHOLE + rows + t, mask=t < T, other=1.0)
                units += v * (1.0 / tl.maximum(by_head, tiny))[:, None]
                whole += v * (1.0 / tl.maximum(of_all, tiny))[:, None]
                total += v
                count += keep
                apart = tl.where(kept, v - first[None, :] - mean, 0.0)
                mean += apart * (1.0 / tl.maximum(count, 1.0))[:, None]
                spread += apart * tl.where(kept, v - first[None, :] - mean, 0.0)
            middle = tl.sum(mean * count[:, None], 0) / tl.maximum(tl.sum(count, 0), 1.0)
            around = mean - middle[None, :]
            spread += around * around * count[:, None]
            pair = 0
            for bit in tl.static_range(8 * MASKS):
                pair += tl.where(bit < site * MASKS + mask, (WANTED >> bit) & 1, 0)
            row = (pair * B + b).to(tl.int64)
            into = TOTALS + row * 3 * H * E + head * E + e
            tl.store(into, tl.sum(units, 0), mask=inside)
            tl.store(into + H * E, tl.sum(whole, 0), mask=inside)
            tl.store(into + 2 * H * E, tl.sum(total, 0), mask=inside)
            tl.store(SPREADS + row * H + head, tl.sum(tl.sum(spread, 0), 0))


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
