"use strict";
(() => {
  const table = document.getElementById("results");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const headings = Array.from(table.tHead.rows[0].cells);
  const said = document.getElementById("said");
  const text = document.getElementById("text");
  const verdict = document.getElementById("verdict");
  const kind = document.getElementById("kind");

  const value = (row, column) => {
    const cell = row.cells[column];
    const written = cell.dataset.value;
    if (written === undefined) return cell.textContent.trim().toLowerCase();
    return written === "" ? null : Number(written);
  };
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);

  const sort = (column) => {
    const ascending = headings[column].getAttribute("aria-sort") !== "ascending";
    headings.forEach((heading) => heading.removeAttribute("aria-sort"));
    headings[column].setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const keyed = rows.map((row, place) => ({ row, place, key: value(row, column) }));
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place;
      const order = a.key === b.key ? 0 : compare(a.key, b.key); // infinite values are equal, not NaN apart
      return (ascending ? order : -order) || a.place - b.place;
    });
    keyed.forEach(({ row }) => body.append(row));
    said.value = `${shown()} Sorted by ${headings[column].textContent.trim()}, ${ascending ? "ascending" : "descending"}.`;
  };
  headings.forEach((heading, column) => {
    const button = heading.querySelector("button");
    if (button) button.addEventListener("click", () => sort(column));
  });

  const shown = () => `${rows.filter((row) => !row.hidden).length} of ${rows.length} results shown.`;
  const filter = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach((row) => {
      const card = document.getElementById(row.dataset.card);
      const content = card.textContent.toLowerCase();
      row.hidden =
        (verdict.value !== "" && row.dataset.verdict !== verdict.value) ||
        (kind.value !== "" && row.dataset.kind !== kind.value) ||
        !words.every((word) => content.includes(word));
      card.hidden = row.hidden;
    });
    said.value = shown();
  };
  [text, verdict, kind].forEach((control) => control.addEventListener("input", filter));
  document.getElementById("controls").hidden = false;
  filter();
})();
