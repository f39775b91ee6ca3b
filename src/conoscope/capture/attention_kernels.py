"""Triton kernels of attention: what is read of softmax(scale · q kᵀ + mask), in one pass each, without arrays in between.
Imported on a GPU only.

Every sum is accumulated in float32, whatever the precision of the model. Products of float32 numbers are made of three products
of 19-bit numbers ("tf32x3"), as exact as float32 and several times as fast on tensor cores.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _seen(M, b, h, i, j, T, mb, mh, mi, mj, alike, MASKED: tl.constexpr, CAUSAL: tl.constexpr):
    """Which of the queries i may see which of the keys j. `alike`: whether all queries of the text see the same keys."""
    seen = (i < T) & (j < T) & (i >= 0) & (j >= 0)
    if CAUSAL:
        seen = seen & (j <= i)
    if MASKED:
        at = M + b.to(tl.int64) * mb + h.to(tl.int64) * mh + j * mj
        if alike:
            seen = seen & (tl.load(at, mask=(j < T) & (j >= 0), other=0) != 0)
        else:
            seen = seen & (tl.load(at + i.to(tl.int64) * mi, mask=seen, other=0) != 0)
    return seen


@triton.jit
def _rows(X, at, e, T, st, se, E: tl.constexpr):
    """The vectors at some places, one a row; 0 outside the text."""
    inside = (at[:, None] >= 0) & (at[:, None] < T) & (e[None, :] < E)
    return tl.load(X + at[:, None].to(tl.int64) * st + e[None, :] * se, mask=inside, other=0.0)


@triton.jit
def _columns(X, at, e, T, st, se, E: tl.constexpr):
    """The vectors at some places, one a column; 0 outside the text."""
    inside = (at[None, :] >= 0) & (at[None, :] < T) & (e[:, None] < E)
    return tl.load(X + at[None, :].to(tl.int64) * st + e[:, None] * se, mask=inside, other=0.0)


@triton.jit
def attention_rows(
    Q, K, M, BEGIN, END, ALIKE, DRAWN, TOP, TOTAL, ENTROPY, BAND, COLUMNS, scale,
    qb, qh, qt, qe, kb, kh, kt, ke, mb, mh, mi, mj, T, H, GROUP, BLOCKS, KEYS,
    E: tl.constexpr, BE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BC: tl.constexpr,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Of a block of queries: the largest score and Σ exp(s - top), the entropy, the weights on the neighbours and on the drawn
    keys.

    entropy = log z - w / z with z = Σ exp(s - top) and w = Σ exp(s - top) (s - top): neither term is negative, so nothing
    cancels. A weight is exp(s - top) / z: top and log z apart, since their sum would be rounded at the size of the scores.
    """
    block, bh = tl.program_id(0) % BLOCKS, tl.program_id(0) // BLOCKS
    b, h = bh // H, bh % H
    i, e = block * BM + tl.arange(0, BM), tl.arange(0, BE)
    keys = K + b.to(tl.int64) * kb + (h // GROUP) * kh
    q = _rows(Q + b.to(tl.int64) * qb + h * qh, i, e, T, qt, qe, E)
    top = tl.full([BM], float("-inf"), tl.float32)
    z = tl.zeros([BM], tl.float32)
    w = tl.zeros([BM], tl.float32)
    before = tl.full([BM], float("-inf"), tl.float32)
    own = tl.full([BM], float("-inf"), tl.float32)
    after = tl.full([BM], float("-inf"), tl.float32)
    begin, end, alike = 0, T, False
    if MASKED:
        alike = tl.load(ALIKE + b) != 0
        begin = tl.load(BEGIN + b * BLOCKS + block)
        end = tl.load(END + b * BLOCKS + block)
    if CAUSAL:
        end = tl.minimum(end, block * BM + BM)
    for n in range(begin, end, BN):
        j = n + tl.arange(0, BN)
        s = tl.dot(q, _columns(keys, j, e, T, kt, ke, E), input_precision=PRECISION) * scale
        seen = _seen(M, b, h, i[:, None], j[None, :], T, mb, mh, mi, mj, alike, MASKED, CAUSAL)
        s = tl.where(seen, s, float("-inf"))
        if (n <= block * BM + BM) & (n + BN >= block * BM):
            before = tl.maximum(before, tl.max(tl.where(j[None, :] == i[:, None] - 1, s, float("-inf")), 1))
            own = tl.maximum(own, tl.max(tl.where(j[None, :] == i[:, None], s, float("-inf")), 1))
            after = tl.maximum(after, tl.max(tl.where(j[None, :] == i[:, None] + 1, s, float("-inf")), 1))
        higher = tl.maximum(top, tl.max(s, 1))
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        lower = tl.where(top == float("-inf"), 0.0, top - safe)
        shrink = tl.exp2(lower * LOG2E)
        apart = tl.where(seen, s - safe[:, None], 0.0)
        p = tl.where(seen, tl.exp2(apart * LOG2E), 0.0)
        w = shrink * (w + z * lower) + tl.sum(p * apart, 1)
        z = shrink * z + tl.sum(p, 1)
        top = higher
    # A row that sees no key is padding: all its numbers are 0.
    there = z > 0
    top, z = tl.where(there, top, 0.0), tl.where(there, z, 1.0)
    at = (b.to(tl.int64) * H + h) * T + i
    tl.store(TOP + at, top, mask=i < T)
    tl.store(TOTAL + at, z, mask=i < T)
    tl.store(ENTROPY + at, tl.log(z) - w / z, mask=i < T)
    tl.store(BAND + at * 3, tl.exp2((before - top) * LOG2E) / z, mask=i < T)
    tl.store(BAND + at * 3 + 1, tl.exp2((own - top) * LOG2E) / z, mask=i < T)
    tl.store(BAND + at * 3 + 2, tl.exp2((after - top) * LOG2E) / z, mask=i < T)
    for first in range(0, KEYS, BC):
        c = first + tl.arange(0, BC)
        drawn = tl.load(DRAWN + b.to(tl.int64) * KEYS + c, mask=c < KEYS, other=-1).to(tl.int32)
        s = tl.dot(q, _columns(keys, drawn, e, T, kt, ke, E), input_precision=PRECISION) * scale
        seen = there[:, None] & _seen(M, b, h, i[:, None], drawn[None, :], T, mb, mh, mi, mj, alike, MASKED, CAUSAL)
        weight = tl.where(seen, tl.exp2((s - top[:, None]) * LOG2E) / z[:, None], 0.0)
        into = COLUMNS + (bh.to(tl.int64) * KEYS + c[None, :]) * T + i[:, None]
        tl.store(into, weight, mask=(i[:, None] < T) & (c[None, :] < KEYS))


@triton.jit
def attention_keys(
    Q, K, M, BEGIN, END, ALIKE, ASKING, CLASSIFYING, SAMPLED, TOP, TOTAL, RECEIVED, ROW, PAIRED, scale,
    qb, qh, qt, qe, kb, kh, kt, ke, mb, mh, mi, mj, T, H, GROUP, BLOCKS,
    E: tl.constexpr, BE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr, AXIS: tl.constexpr,
):  # fmt: skip
    """Of a block of keys: the sums of their weights over the real queries and over the separator queries, the weights of the
    classifying token's query, and the weight of each key from the query that is sampled for it. Queries that do not ask (padding)
    give nothing.

    Blocks are those of `attention_rows`, so that products are rounded in the same way and no weight is above 1. Queries lie along
    `AXIS`: sums over 1 take a fraction of the time of those over 0, but "tf32x3" would add its products in another order.
    """
    block, bh = tl.program_id(0) % BLOCKS, tl.program_id(0) // BLOCKS
    b, h = bh // H, bh % H
    j, e = block * BN + tl.arange(0, BN), tl.arange(0, BE)
    queries = Q + b.to(tl.int64) * qb + h * qh
    keys = K + b.to(tl.int64) * kb + (h // GROUP) * kh
    k = _rows(keys, j, e, T, kt, ke, E) if AXIS == 1 else _columns(keys, j, e, T, kt, ke, E)
    classifying = tl.load(CLASSIFYING + b).to(tl.int32)
    sampled = tl.load(SAMPLED + b.to(tl.int64) * T + j, mask=j < T, other=-1).to(tl.int32)
    asking = ASKING + b.to(tl.int64) * 2 * T
    j_along, sampled = tl.expand_dims(j, AXIS), tl.expand_dims(sampled, AXIS)
    all = tl.zeros([BN], tl.float32)
    paired = tl.zeros([BN], tl.float32)
    separators = tl.zeros([BN], tl.float32)
    row = tl.zeros([BN], tl.float32)
    begin, end, alike = 0, T, False
    if MASKED:
        alike = tl.load(ALIKE + b) != 0
        begin = tl.load(BEGIN + b * BLOCKS + block)
        end = tl.load(END + b * BLOCKS + block)
    if CAUSAL:
        begin = tl.maximum(begin, (block * BN) // BM * BM)
    sums = (b.to(tl.int64) * H + h) * T
    for m in range(begin, end, BM):
        i = m + tl.arange(0, BM)
        along = tl.expand_dims(i, 1 - AXIS)
        if AXIS == 1:
            s = tl.dot(k, _columns(queries, i, e, T, qt, qe, E), input_precision=PRECISION) * scale
        else:
            s = tl.dot(_rows(queries, i, e, T, qt, qe, E), k, input_precision=PRECISION) * scale
        top = tl.expand_dims(tl.load(TOP + sums + i, mask=i < T, other=0.0), 1 - AXIS)
        share = tl.expand_dims(1.0 / tl.load(TOTAL + sums + i, mask=i < T, other=1.0), 1 - AXIS)
        seen = tl.expand_dims(tl.load(asking + i, mask=i < T, other=0.0) > 0, 1 - AXIS)
        if MASKED or CAUSAL:
            seen = seen & _seen(M, b, h, along, j_along, T, mb, mh, mi, mj, alike, MASKED, CAUSAL)
        p = tl.where(seen, tl.exp2((s - top) * LOG2E) * share, 0.0)
        all += tl.sum(p, AXIS)
        paired += tl.sum(tl.where(along == sampled, p, 0.0), AXIS)
        if (classifying >= m) & (classifying < m + BM):
            row += tl.sum(tl.where(along == classifying, p, 0.0), AXIS)
        separator = tl.load(asking + T + i, mask=i < T, other=0.0)
        if tl.max(separator, 0) > 0:
            separators += tl.sum(p * tl.expand_dims(separator, 1 - AXIS), AXIS)
    tl.store(RECEIVED + 2 * sums + j, all, mask=j < T)
    tl.store(RECEIVED + 2 * sums + T + j, separators, mask=j < T)
    tl.store(ROW + sums + j, row, mask=j < T)
    tl.store(PAIRED + sums + j, paired, mask=j < T)
