"""Triton kernels of attention: what is read of softmax(scale · q kᵀ + mask), in one pass each, without arrays in between.
Imported on a GPU only.

Every sum is accumulated in float32, whatever the precision of the model. Products of float32 numbers are made of three products
of 19-bit numbers ("tf32x3"), as exact as float32 and several times as fast on tensor cores.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _seen(M, b, h, i, j, T, mb, mh, mi, mj, MASKED: tl.constexpr, CAUSAL: tl.constexpr):
    """Which of the queries i may see which of the keys j."""
    seen = (i < T) & (j < T) & (i >= 0) & (j >= 0)
    if CAUSAL:
        seen = seen & (j <= i)
    if MASKED:
        at = M + b.to(tl.int64) * mb + h * mh + i.to(tl.int64) * mi + j * mj
        seen = seen & (tl.load(at, mask=seen, other=0) != 0)
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
    Q, K, M, BEGIN, END, DRAWN, TOP, TOTAL, ENTROPY, BAND, COLUMNS, scale,
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
    begin, end = 0, T
    if MASKED:
        begin = tl.load(BEGIN + b * BLOCKS + block)
        end = tl.load(END + b * BLOCKS + block)
    if CAUSAL:
        end = tl.minimum(end, block * BM + BM)
    for n in range(begin, end, BN):
        j = n + tl.arange(0, BN)
        s = tl.dot(q, _columns(keys, j, e, T, kt, ke, E), input_precision=PRECISION) * scale
        seen = _seen(M, b, h, i[:, None], j[None, :], T, mb, mh, mi, mj, MASKED, CAUSAL)
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
        seen = there[:, None] & _seen(M, b, h, i[:, None], drawn[None, :], T, mb, mh, mi, mj, MASKED, CAUSAL)
        weight = tl.where(seen, tl.exp2((s - top[:, None]) * LOG2E) / z[:, None], 0.0)
        tl.store(COLUMNS + at[:, None] * KEYS + c[None, :], weight, mask=(i[:, None] < T) & (c[None, :] < KEYS))


@triton.jit
def _pairs(
    queries, k, M, top, total, asking, AT, step, j, e, b, h, scale, qt, qe, mb, mh, mi, mj, T,
    E: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The weight of each of BN keys j from one query, whose place is at AT + step · j; 0 from a query that does not ask or is
    not there.

    Of a product of blocks as large as those of `attention_rows` (so that its numbers are the same, and no weight is above 1)
    the diagonal is taken.
    """
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    i = tl.load(AT + (tl.min(j, 0) + rows) * step, mask=(rows < BN) & (tl.min(j, 0) + rows < T), other=-1).to(tl.int32)
    there = (i >= 0) & (i < T)
    s = tl.dot(_rows(queries, i, e, T, qt, qe, E), k, input_precision=PRECISION) * scale
    asks = tl.load(asking + i, mask=there, other=0.0) > 0
    seen = asks[:, None] & _seen(M, b, h, i[:, None], j[None, :], T, mb, mh, mi, mj, MASKED, CAUSAL)
    seen = seen & (rows[:, None] == columns[None, :])
    apart = s - tl.load(top + i, mask=there, other=0.0)[:, None]
    share = 1.0 / tl.load(total + i, mask=there, other=1.0)
    return tl.sum(tl.where(seen, tl.exp2(apart * LOG2E) * share[:, None], 0.0), 0)


@triton.jit
def attention_keys(
    Q, K, M, BEGIN, END, ASKING, CLASSIFYING, SAMPLED, TOP, TOTAL, RECEIVED, ROW, PAIRED, scale,
    qb, qh, qt, qe, kb, kh, kt, ke, mb, mh, mi, mj, T, H, GROUP, BLOCKS,
    E: tl.constexpr, BE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Of a block of keys: the sums of their weights over the real queries and over the separator queries, the weights of the
    classifying token's query, and the weight of each key from the query that is sampled for it. Queries that do not ask (padding)
    give nothing."""
    block, bh = tl.program_id(0) % BLOCKS, tl.program_id(0) // BLOCKS
    b, h = bh // H, bh % H
    j, e = block * BN + tl.arange(0, BN), tl.arange(0, BE)
    queries = Q + b.to(tl.int64) * qb + h * qh
    k = _columns(K + b.to(tl.int64) * kb + (h // GROUP) * kh, j, e, T, kt, ke, E)
    all = tl.zeros([BN], tl.float32)
    separators = tl.zeros([BN], tl.float32)
    begin, end = 0, T
    if MASKED:
        begin = tl.load(BEGIN + b * BLOCKS + block)
        end = tl.load(END + b * BLOCKS + block)
    if CAUSAL:
        begin = tl.maximum(begin, (block * BN) // BM * BM)
    sums = (b.to(tl.int64) * H + h) * T
    for m in range(begin, end, BM):
        i = m + tl.arange(0, BM)
        s = tl.dot(_rows(queries, i, e, T, qt, qe, E), k, input_precision=PRECISION) * scale
        top = tl.load(TOP + sums + i, mask=i < T, other=0.0)
        share = 1.0 / tl.load(TOTAL + sums + i, mask=i < T, other=1.0)
        real = tl.load(ASKING + b.to(tl.int64) * 2 * T + i, mask=i < T, other=0.0)
        separator = tl.load(ASKING + b.to(tl.int64) * 2 * T + T + i, mask=i < T, other=0.0)
        seen = (real[:, None] > 0) & _seen(M, b, h, i[:, None], j[None, :], T, mb, mh, mi, mj, MASKED, CAUSAL)
        p = tl.where(seen, tl.exp2((s - top[:, None]) * LOG2E) * share[:, None], 0.0)
        all += tl.sum(p, 0)
        if tl.max(separator, 0) > 0:
            separators += tl.sum(p * separator[:, None], 0)
    tl.store(RECEIVED + 2 * sums + j, all, mask=j < T)
    tl.store(RECEIVED + 2 * sums + T + j, separators, mask=j < T)
    asking = ASKING + b.to(tl.int64) * 2 * T
    row = _pairs(
        queries, k, M, TOP + sums, TOTAL + sums, asking, CLASSIFYING + b, 0, j, e, b, h, scale, qt, qe, mb, mh, mi, mj, T,
        E, BM, BN, MASKED, CAUSAL, PRECISION,
    )  # fmt: skip
    paired = _pairs(
        queries, k, M, TOP + sums, TOTAL + sums, asking, SAMPLED + b.to(tl.int64) * T, 1, j, e, b, h, scale,
        qt, qe, mb, mh, mi, mj, T, E, BM, BN, MASKED, CAUSAL, PRECISION,
    )  # fmt: skip
    tl.store(ROW + sums + j, row, mask=j < T)
    tl.store(PAIRED + sums + j, paired, mask=j < T)
