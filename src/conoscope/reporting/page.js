"use strict";
(() => {
  const compared = (one, other, asNumbers) =>
    asNumbers ? Number(one) - Number(other) : one.localeCompare(other, undefined, { numeric: true });

  const sort = (table, head) => {
    const heads = [...head.parentElement.children];
    const place = heads.indexOf(head);
    const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    const asNumbers = head.classList.contains("number");
    const rows = [...table.tBodies[0].rows].map((row) => ({ row, text: row.cells[place].textContent }));
    const sign = direction === "ascending" ? 1 : -1;
    rows.sort((one, other) => {
      if (!one.text || !other.text) return Number(!one.text) - Number(!other.text);
      return sign * compared(one.text, other.text, asNumbers);
    });
    table.tBodies[0].append(...rows.map(({ row }) => row));
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", direction);
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const head of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(table, head));
      head.replaceChildren(button);
    }
  }
})();
