"use strict";
const drawings = JSON.parse(document.getElementById("drawings").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const placeOf = (id) => document.getElementById(`${id}-drawing`);
const alongTime = Object.keys(drawings).filter((id) => drawings[id].alongTime).map(placeOf);

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
    const place = placeOf(id);
    const { data, layout } = coloured(figure, style);
    if (place._fullLayout && figure.alongTime) layout.xaxis.range = place._fullLayout.xaxis.range;
    // Where it is narrow, a legend takes a line for each of its names.
    const names = data.filter((trace) => trace.showlegend !== false && trace.type !== "heatmap");
    if (place.clientWidth < 600 && names.length > 1) layout.height += 18 * names.length;
    Plotly.react(place, data, layout, { responsive: true, displayModeBar: false, doubleClick: "reset" });
  }
}

// All figures over time show the same time, whichever of them is zoomed or moved.
let following = false;

async function follow(place) {
  if (following) return;
  following = true;
  const range = [...place._fullLayout.xaxis.range];
  const others = alongTime.filter((each) => `${each._fullLayout.xaxis.range}` !== `${range}`);
  await Promise.all(others.map((each) => Plotly.relayout(each, { "xaxis.range": range })));
  following = false;
  hideCursors();
}

// One cursor in all of them: a line at the time under the pointer.
const cursors = new Map();

function addCursor(place) {
  const cursor = document.createElement("div");
  cursor.className = "cursor";
  cursor.hidden = true;
  cursor.setAttribute("aria-hidden", "true");
  place.append(cursor);
  cursors.set(place, cursor);
  place.addEventListener("pointermove", (event) => pointAt(place, event));
  place.addEventListener("pointerleave", hideCursors);
}

function pointAt(place, event) {
  const { xaxis } = place._fullLayout;
  const x = event.clientX - place.getBoundingClientRect().left - xaxis._offset;
  if (x < 0 || x > xaxis._length) return hideCursors();
  const t = xaxis.p2c(x);
  const text = new Date(t).toISOString().slice(0, 19).replace("T", " ");
  for (const [each, cursor] of cursors) {
    const axis = each._fullLayout.xaxis;
    const at = axis.c2p(t);
    cursor.hidden = !(at >= 0 && at <= axis._length);
    if (cursor.hidden) continue;
    cursor.style.left = `${axis._offset + at}px`;
    cursor.style.top = `${each._fullLayout._size.t}px`;
    cursor.style.height = `${each._fullLayout._size.h}px`;
    cursor.classList.toggle("left", at > axis._length / 2);
    cursor.dataset.time = text;
  }
}

function hideCursors() {
  for (const cursor of cursors.values()) cursor.hidden = true;
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
  for (const place of alongTime) {
    const all = [...place._fullLayout.xaxis.range];
    place.addEventListener("keydown", (event) => move(place, all, event));
    place.on("plotly_relayout", () => follow(place));
    addCursor(place);
  }
}

begin();
for (const header of document.querySelectorAll("#moves-table th")) {
  header.firstElementChild.addEventListener("click", () => sortBy(header));
}
