"use strict";
// Tables: a click on a heading sorts the whole table, of which the first rows are shown.
(() => {
  const SHOWN = 100;

  const compared = (one, other, asNumbers) =>
    asNumbers ? one - other : one.localeCompare(other, undefined, { numeric: true });

  // Cells as the page has them, in rows that are all there.
  const shownRows = (table) => {
    const isNumber = [...table.tHead.rows[0].cells].map((head) => head.classList.contains("number"));
    return [...table.tBodies[0].rows].map((row) => ({
      row,
      keys: [...row.cells].map(({ textContent: text }, place) => (text === "" ? null : isNumber[place] ? Number(text) : text)),
    }));
  };

  const inflated = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return JSON.parse(await new Response(stream).text());
  };

  // Rows of a long table, from its columns: numbers as they are, texts by their places in a list that is in order.
  const heldRows = ({ columns }) => {
    const count = (columns[0].values ?? columns[0].at).length;
    const keys = columns.map(({ values, at }) => (values ?? at).map((key) => (typeof key === "string" ? Number(key) : key)));
    return Array.from({ length: count }, (_, place) => ({ place, keys: keys.map((column) => column[place]) }));
  };

  const written = (value, places) => {
    const shown = Number.isFinite(value) ? value.toFixed(places) : String(value);
    return value && !/[1-9a-z]/i.test(shown) ? value.toExponential(0).replace(/e([+-])(\d)$/, "e$10$2") : shown;
  };

  const cell = ({ words, places }, key) => {
    const found = document.createElement("td");
    if (words) found.className = "text";
    if (key === null) return found;
    const text = words ? words[key] : written(key, places);
    const inside = words && (text === "" || /[^\x00-\x7f]/.test(text)) ? document.createElement(text ? "bdi" : "span") : found;
    inside.textContent = text || "(empty)";
    if (!text) inside.className = "muted";
    if (inside !== found) found.append(inside);
    return found;
  };

  const rowOf = ({ columns }, { keys }) => {
    const row = document.createElement("tr");
    row.append(...columns.map((column, place) => cell(column, keys[place])));
    return row;
  };

  const sorted = (rows, place, sign, asNumbers) =>
    [...rows].sort(({ keys: one }, { keys: other }) => {
      const [a, b] = [one[place], other[place]];
      return a === null || b === null ? Number(a === null) - Number(b === null) : sign * compared(a, b, asNumbers);
    });

  const sorting = (table, held) => {
    let rows = null;
    let data = null;
    return async (head) => {
      const heads = [...head.parentElement.children];
      const place = heads.indexOf(head);
      const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      if (held && !data) data = await inflated(held.textContent);
      // Of a table that is not here whole the first rows by this column are, but not those by two.
      if (!rows || (data && !data.whole)) rows = data ? heldRows(data) : shownRows(table);
      rows = sorted(rows, place, direction === "ascending" ? 1 : -1, Boolean(data) || head.classList.contains("number"));
      table.tBodies[0].replaceChildren(...rows.slice(0, SHOWN).map((one) => one.row ?? rowOf(data, one)));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction);
      if (held) table.caption.textContent = `${held.dataset.told} by ${head.textContent}, ${direction}`;
    };
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    const held = table.parentElement.parentElement.querySelector("script[data-rows]");
    if (held && !window.DecompressionStream) continue;
    const sort = sorting(table, held);
    for (const head of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(head));
      head.replaceChildren(button);
    }
  }
})();
