"use strict";
const drawings = JSON.parse(document.getElementById("drawings").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");

// A colour stands in the figures as the page's style names it: var(--name).
function coloured(value, style) {
  if (typeof value === "string") {
    return value.replace(/^var\((--[\w-]+)\)$/, (_, name) => style.getPropertyValue(name).trim());
  }
  if (Array.isArray(value)) return value.map((each) => coloured(each, style));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, coloured(each, style)]));
}

function draw() {
  const style = getComputedStyle(document.documentElement);
  for (const [id, figure] of Object.entries(drawings)) {
    const place = document.getElementById(`${id}-drawing`);
    const { data, layout } = coloured(figure, style);
    // Where it is narrow, a legend takes a line for each of its names.
    if (place.clientWidth < 600) layout.height += 18 * data.length;
    Plotly.react(place, data, layout, { responsive: true, displayModeBar: false });
  }
}

const KEYS = { "+": [0.25, -0.25], "=": [0.25, -0.25], "-": [-0.5, 0.5], ArrowLeft: [-0.2, -0.2], ArrowRight: [0.2, 0.2] };

function move(place, all, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const axis = place._fullLayout.xaxis;
  const [from, to] = axis.range.map((end) => axis.r2l(end));
  let range;
  if (event.key === "0") range = [...all];
  else if (event.key in KEYS) {
    const [left, right] = KEYS[event.key];
    range = [from + left * (to - from), to + right * (to - from)];
  } else return;
  event.preventDefault();
  Plotly.relayout(place, { "xaxis.range": range });
}

function sortBy(header) {
  const table = header.closest("table");
  const body = table.tBodies[0];
  const column = [...header.parentNode.children].indexOf(header);
  const up = header.getAttribute("aria-sort") === "descending" ? 1 : -1;
  const numbers = header.classList.contains("number");
  const keyOf = (row) => row.cells[column].dataset.key;
  const rows = [...body.rows].sort((one, other) => {
    const [a, b] = [keyOf(one), keyOf(other)];
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    return up * (numbers ? a - b : a.localeCompare(b, "en", { numeric: true }));
  });
  for (const each of header.parentNode.children) each.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", up > 0 ? "ascending" : "descending");
  body.append(...rows);
  document.getElementById("sorted").textContent =
    `Sorted by ${header.textContent.trim()}, ${header.getAttribute("aria-sort")}`;
}

// plotly.js is in the page as base64 of gzip: that is two fifths of its size.
async function loadLibrary() {
  const packed = Uint8Array.from(atob(document.getElementById("library").textContent), (c) => c.charCodeAt(0));
  const script = document.createElement("script");
  script.textContent = await new Response(
    new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")),
  ).text();
  document.head.append(script);
}

async function begin() {
  try {
    await loadLibrary();
  } catch {
    for (const place of document.querySelectorAll(".drawing")) {
      place.textContent = "This browser cannot draw the figure: it is older than 2023. The table below has the same.";
      place.style.minHeight = "0";
    }
    return;
  }
  draw();
  dark.addEventListener("change", draw);
  for (const [id, figure] of Object.entries(drawings)) {
    if (!figure.alongTime) continue;
    const place = document.getElementById(`${id}-drawing`);
    const all = figure.layout.xaxis.range;
    place.addEventListener("keydown", (event) => move(place, all, event));
  }
}

begin();
for (const header of document.querySelectorAll("#moves-table th")) {
  header.firstElementChild.addEventListener("click", () => sortBy(header));
}
