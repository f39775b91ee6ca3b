/** Which point the pointer means. */

/** The index of the shown point nearest to (x, y) within a radius, the one in front if two are equally near; -1 if none. */
export function hit(spots: Float32Array, shown: Uint8Array, x: number, y: number, radius: number): number {
  let best = -1;
  let least = radius * radius;
  let front = Number.POSITIVE_INFINITY;
  for (let i = 0; i < shown.length; i++) {
    if (!shown[i]) continue;
    const dx = spots[i * 3]! - x;
    const dy = spots[i * 3 + 1]! - y;
    const depth = spots[i * 3 + 2]!;
    const apart = dx * dx + dy * dy;
    if (!(apart < least || (apart === least && depth < front))) continue;
    best = i;
    least = apart;
    front = depth;
  }
  return best;
}

/** The indices of the shown points, farthest first, so that nearer ones are drawn over them. */
export function farthestFirst(spots: Float32Array, shown: Uint8Array, bins = 64): Uint32Array {
  const counts = new Uint32Array(bins + 1);
  const binOf = (i: number) => Math.max(0, Math.min(bins - 1, Math.floor(((2 - spots[i * 3 + 2]!) / 4) * bins)));
  let total = 0;
  for (let i = 0; i < shown.length; i++) {
    if (!shown[i]) continue;
    counts[binOf(i) + 1]!++;
    total++;
  }
  for (let bin = 0; bin < bins; bin++) counts[bin + 1]! += counts[bin]!;
  const out = new Uint32Array(total);
  for (let i = 0; i < shown.length; i++) if (shown[i]) out[counts[binOf(i)]!++] = i;
  return out;
}
