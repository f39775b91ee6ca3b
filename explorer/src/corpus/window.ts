/** Which rows of a long list are in the document, and which pages of it are fetched. */

export interface Window {
  /** The first row and the one after the last. */
  from: number;
  to: number;
}

/** The rows that a list shows when scrolled so far, with some more on both sides. */
export function windowOf(scrolled: number, height: number, row: number, total: number, more = 6): Window {
  const from = Math.max(0, Math.min(total, Math.floor(Math.max(0, scrolled) / row) - more));
  const to = Math.max(from, Math.min(total, Math.ceil((Math.max(0, scrolled) + height) / row) + more));
  return { from, to };
}

/** The numbers of the pages that hold these rows. */
export function pagesOf({ from, to }: Window, size: number): number[] {
  if (to <= from) return [];
  const first = Math.floor(from / size);
  return Array.from({ length: Math.floor((to - 1) / size) - first + 1 }, (_, i) => first + i);
}

/** How far to scroll so that a row is wholly in sight; the same as before if it is. */
export function scrollTo(index: number, scrolled: number, height: number, row: number): number {
  const [top, bottom] = [index * row, (index + 1) * row];
  if (top < scrolled) return top;
  return bottom > scrolled + height ? bottom - height : scrolled;
}

/** The row after a key; null where the key says nothing to a list. */
export function afterKey(key: string, index: number, total: number, page: number): number | null {
  const to: Record<string, number> = {
    ArrowDown: index + 1,
    ArrowUp: index - 1,
    PageDown: index + page,
    PageUp: index - page,
    Home: 0,
    End: total - 1,
  };
  const next = to[key];
  return next === undefined || total === 0 ? null : Math.max(0, Math.min(total - 1, next));
}
