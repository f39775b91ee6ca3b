/** Tables as CSV. */

export type Value = string | number | null | undefined;

/** The rows as CSV; a text that a spreadsheet would run as a formula gets a mark before it. */
export function csvOf(columns: readonly string[], rows: readonly (readonly Value[])[]): string {
  return `${[columns, ...rows].map((row) => row.map(field).join(",")).join("\r\n")}\r\n`;
}

function field(value: Value): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}
