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

// Where an axis leaves hours out, plotly.js finds no good ticks for it.
const MINUTE_MS = 60000;
const STEPS_MS = [
  ...[1, 2, 5, 10, 15, 30].map((s) => s * 1000),
  ...[1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080].map((m) => m * MINUTE_MS),
];

function ticks(place, range, wide = place.clientWidth) {
  const cuts = (drawings[place.id.replace("-drawing", "")].layout.xaxis.rangebreaks ?? [])
    .map(({ bounds }) => bounds.map((end) => Date.parse(`${end.replace(" ", "T")}Z`)));
  if (!cuts.length) return {};
  const [from, to] = range;
  const shown = (t) => t - from - cuts.reduce((sum, [a, b]) => sum + Math.max(0, Math.min(t, b) - Math.max(from, a)), 0);
  const width = Math.max(200, wide - 120);
  const step = STEPS_MS.find((each) => shown(to) / each <= width / 90) ?? STEPS_MS.at(-1);
  const starts = [from, ...cuts.map(([, end]) => end)];
  const ends = [...cuts.map(([begin]) => begin), to];
  const tickvals = [];
  const ticktext = [];
  let [last, day] = [-Infinity, ""];
  for (const [n, start] of starts.entries()) {
    for (let t = Math.ceil(Math.max(start, from) / step) * step; t <= Math.min(ends[n], to); t += step) {
      const at = (shown(t) / shown(to)) * width;
      if (at - last < 60) continue;
      last = at;
      const date = new Date(t);
      const [today, time] = date.toISOString().split("T");
      tickvals.push(t);
      ticktext.push(time.slice(0, step < MINUTE_MS ? 8 : 5) + (today === day ? "" : `<br>${today}`));
      day = today;
    }
  }
  return { tickvals, ticktext };
}

// On paper, a figure fits between the margins of A4 and of Letter, however wide the window is.
const PAPER = { width: 680, height: 840 };
const NARROW_PX = 600;
const root = document.documentElement;

function draw() {
  const paper = root.classList.contains("paper");
  const style = getComputedStyle(root);
  for (const [id, figure] of Object.entries(drawings)) {
    const place = placeOf(id);
    const { data, layout } = coloured(figure, style);
    if (figure.alongTime) {
      if (place._fullLayout) layout.xaxis.range = rangeOf(place);
      Object.assign(layout.xaxis, ticks(place, layout.xaxis.range, paper ? PAPER.width : undefined));
    }
    layout.autosize = !paper;
    if (paper) {
      Object.assign(layout, { width: PAPER.width, height: Math.min(layout.height, PAPER.height) });
    } else if (place.clientWidth < NARROW_PX) narrow(data, layout);
    place.style.height = `${layout.height}px`;
    Plotly.react(place, data, layout, { responsive: true, displayModeBar: false, doubleClick: "reset" });
  }
}

// Where it is narrow, a legend takes a line for each of its names, and a time in a cell two lines.
function narrow(data, layout) {
  const names = data.filter((trace) => trace.showlegend !== false && trace.type !== "heatmap");
  if (names.length > 1) layout.height += 18 * names.length;
  for (const heat of data.filter((trace) => trace.type === "heatmap")) {
    heat.text = heat.text.map((row) => row.map((cell) => cell.replace(/([dhm]) /, "$1<br>")));
    layout.height += 10 * heat.y.length;
  }
}

// All figures over time show the same time, whichever of them is zoomed or moved.
const rangeOf = (place) => place._fullLayout.xaxis.range.map((end) => place._fullLayout.xaxis.r2l(end));
let following = false;

async function follow(place) {
  if (following) return;
  following = true;
  const range = rangeOf(place);
  const cut = Object.fromEntries(Object.entries(ticks(place, range)).map(([key, each]) => [`xaxis.${key}`, each]));
  const others = alongTime.filter((each) => `${rangeOf(each)}` !== `${range}`);
  const behind = "xaxis.tickvals" in cut ? [...others, place] : others;
  await Promise.all(behind.map((each) => Plotly.relayout(each, { "xaxis.range": range, ...cut })));
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
  const [from, to] = rangeOf(place);
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
  for (const event of ["beforeprint", "afterprint"]) {
    addEventListener(event, () => {
      root.classList.toggle("paper", event === "beforeprint");
      draw();
    });
  }
  for (const place of alongTime) {
    const all = rangeOf(place);
    place.addEventListener("keydown", (event) => move(place, all, event));
    place.on("plotly_relayout", () => follow(place));
    addCursor(place);
  }
}

begin();
for (const header of document.querySelectorAll("#moves-table th")) {
  header.firstElementChild.addEventListener("click", () => sortBy(header));
}
