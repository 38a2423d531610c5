// The map: move and zoom it, see the item under the pointer, draw around items to select them.

import { root, tell } from "./nearsay.js";
import { placesOf } from "./places.js";
import { colorTables, drawPoints, radiusFor, rgb, rowAt, rowsWithin, wholeView } from "./points.js";
import { count, select, selection, whenSelected } from "./selection.js";

const MOST_PICTURES = 300;
const MOST_NAMES = 40;
const remembered = `place on ${location.pathname}${new URLSearchParams(location.search).get("layout") ?? ""} of ${document.querySelector(".brand a").textContent}`;
const map = document.getElementById("map");
const canvas = document.getElementById("canvas");
const context = canvas.getContext("2d");
const state = document.getElementById("state");
const card = document.getElementById("shown");
const lassoing = document.getElementById("lasso");
const darkness = matchMedia("(prefers-color-scheme: dark)");

let [points, numbers] = [new Float32Array(0), new Uint16Array(0)];
let colors = colorTables(darkness.matches);
let view = null;
let image = null;
let emphasized = -1;
let visible = Infinity;
let line = [];
let places = []; // of labels or groups
const known = new Map(); // items by row, those that were looked at
const pictures = new Map();

async function load() {
  for (;;) {
    const answer = await fetch(map.dataset.points);
    if (answer.status === 202) {
      state.textContent = "The map is being computed …";
      await answer.text(); // what is not read keeps its connection
      await new Promise((later) => setTimeout(later, 1000));
      continue;
    }
    if (!answer.ok) {
      state.textContent = "The points cannot be loaded. Load the page again in a moment.";
      return;
    }
    const bytes = await answer.arrayBuffer();
    changedAt = performance.now();
    const n = bytes.byteLength / 10;
    points = new Float32Array(bytes, 0, 2 * n);
    numbers = new Uint16Array(bytes, 8 * n, n);
    state.textContent = "";
    view ??= JSON.parse(sessionStorage.getItem(remembered) ?? "null") ?? wholeView(points, canvas.width, canvas.height);
    places = placesOf(points, numbers);
    visible = n;
    behind = null;
    drawNow();
    return;
  }
}

// ------------------------------------------------------------ drawing

let waiting = false;
let changedAt = 0; // when something changed that is not drawn yet
function draw() {
  if (waiting) return;
  waiting = true;
  changedAt ||= performance.now();
  requestAnimationFrame(() => {
    waiting = false;
    drawNow();
  });
}

function drawNow() {
  paint();
  if (view) sessionStorage.setItem(remembered, JSON.stringify(view));
  performance.clearMeasures("points drawn"); // the last is enough
  performance.measure("points drawn", { start: changedAt });
  changedAt = 0;
}

// Which points step back, made when what is emphasized or selected has changed.
let behind = null;
function steppingBack() {
  if (emphasized < 0 && !selection.size) return null;
  if (behind === null) {
    behind = new Uint8Array(numbers.length).fill(1);
    if (emphasized >= 0) {
      for (let row = 0; row < behind.length; row += 1) if (numbers[row] === emphasized) behind[row] = 0;
    } else {
      for (const row of selection) behind[row] = 0;
    }
  }
  return behind;
}

function paint() {
  if (!view || !canvas.width || !canvas.height) return;
  if (image?.width !== canvas.width || image.height !== canvas.height) image = context.createImageData(canvas.width, canvas.height);
  const back = steppingBack();
  const radius = radiusFor(visible, devicePixelRatio);
  visible = drawPoints(image, points, numbers, view, colors, radius, back);
  if (radiusFor(visible, devicePixelRatio) !== radius) {
    visible = drawPoints(image, points, numbers, view, colors, radiusFor(visible, devicePixelRatio), back);
  }
  context.putImageData(image, 0, 0);
  if (map.dataset.pictures && visible <= MOST_PICTURES) paintPictures(back);
  if (map.dataset.color === "groups") paintOutlines();
  else paintNames();
  if (line.length > 1) {
    context.beginPath();
    for (const [x, y] of line) context.lineTo(x, y);
    context.setLineDash([6, 4]);
    context.lineWidth = 2;
    context.strokeStyle = getComputedStyle(canvas).color;
    context.stroke();
    context.setLineDash([]);
  }
}

const onCanvas = ([x, y]) => [canvas.width / 2 + (x - view.x) * view.scale, canvas.height / 2 - (y - view.y) * view.scale];

function paintOutlines() {
  for (const { number, outline } of places.slice(0, 400)) {
    if (outline.length < 3) continue;
    context.beginPath();
    for (const point of outline) context.lineTo(...onCanvas(point));
    context.closePath();
    context.lineWidth = 1.5 * devicePixelRatio;
    context.lineJoin = "round";
    context.strokeStyle = `rgb(${rgb(number, darkness.matches)})`;
    context.stroke();
  }
}

// The name of each label at its center, the largest first, where no other name is.
function paintNames() {
  if (!places.length || places.length > MOST_NAMES) return;
  const names = new Map([...document.querySelectorAll("#counts a[data-number]")].map((link) => [Number(link.dataset.number), link.textContent]));
  const style = getComputedStyle(canvas);
  const height = 13 * devicePixelRatio;
  const taken = [];
  context.font = `600 ${height}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const { number, center } of [...places].sort((a, b) => b.size - a.size)) {
    const name = (names.get(number) ?? "").slice(0, 24);
    const [x, y] = onCanvas(center);
    const half = context.measureText(name).width / 2;
    if (!name || taken.some(([left, right, at]) => x + half > left && x - half < right && Math.abs(y - at) < 1.3 * height)) continue;
    taken.push([x - half, x + half, y]);
    context.lineWidth = 4 * devicePixelRatio;
    context.lineJoin = "round";
    context.strokeStyle = style.backgroundColor;
    context.strokeText(name, x, y);
    context.fillStyle = style.color;
    context.fillText(name, x, y);
  }
}

function rowsInView() {
  const [width, height] = [canvas.width, canvas.height];
  return rowsWithin([[0, 0], [width, 0], [width, height], [0, height]], points, view, width, height);
}

function paintPictures(back) {
  const rows = rowsInView();
  const side = Math.round(devicePixelRatio * Math.max(18, Math.min(56, 0.55 * Math.sqrt((map.clientWidth * map.clientHeight) / (rows.length || 1)))));
  wanted(rows);
  for (const row of rows) {
    const picture = pictures.get(row);
    if (!picture?.complete || !picture.naturalWidth) continue;
    const x = Math.round(canvas.width / 2 + (points[2 * row] - view.x) * view.scale - side / 2);
    const y = Math.round(canvas.height / 2 - (points[2 * row + 1] - view.y) * view.scale - side / 2);
    context.globalAlpha = back?.[row] ? 0.25 : 1;
    context.fillStyle = "#fff";
    context.fillRect(x, y, side, side);
    context.drawImage(picture, x, y, side, side);
    context.strokeStyle = `rgb(${rgb(numbers[row], darkness.matches)})`;
    context.lineWidth = 2 * devicePixelRatio;
    context.strokeRect(x, y, side, side);
    context.globalAlpha = 1;
  }
}

// ------------------------------------------------------------ items behind the points

async function items(rows) {
  const missing = rows.filter((row) => !known.has(row));
  for (let start = 0; start < missing.length; start += 60) {
    const answer = await fetch(`${root}/items.json?rows=${missing.slice(start, start + 60).join(",")}`);
    if (!answer.ok) return;
    for (const item of (await answer.json()).items) known.set(item.row, item);
  }
}

let asking = false;
async function wanted(rows) {
  if (asking || rows.every((row) => pictures.has(row))) return;
  asking = true;
  await items(rows);
  asking = false;
  if (pictures.size > 4 * MOST_PICTURES) pictures.clear();
  for (const row of rows) {
    if (pictures.has(row) || !known.has(row)) continue;
    const picture = new Image();
    picture.addEventListener("load", draw);
    picture.src = `${root}/picture?id=${encodeURIComponent(known.get(row).id)}`;
    pictures.set(row, picture);
  }
  draw();
}

let pointed = -1;
async function show(row, x, y) {
  if (row === pointed) return;
  pointed = row;
  card.hidden = true;
  if (row < 0) return;
  await new Promise((later) => setTimeout(later, 80));
  if (row !== pointed) return;
  await items([row]);
  const item = known.get(row);
  if (row !== pointed || !item) return;
  const parts = [];
  if (map.dataset.pictures) parts.push(Object.assign(new Image(), { src: `${root}/picture?id=${encodeURIComponent(item.id)}`, alt: "" }));
  if (item.text) parts.push(Object.assign(document.createElement("q"), { textContent: item.text.slice(0, 200) }));
  const label = document.createElement("p");
  label.append(Object.assign(document.createElement("strong"), { textContent: item.label ?? "no label" }));
  parts.push(label, Object.assign(document.createElement("p"), { className: "id", textContent: item.id }));
  card.replaceChildren(...parts);
  card.hidden = false;
  card.style.left = `${Math.max(0, Math.min(x + 14, map.clientWidth - card.offsetWidth - 8))}px`;
  card.style.top = `${Math.max(0, Math.min(y + 14, map.clientHeight - card.offsetHeight - 8))}px`;
}

// ------------------------------------------------------------ moving

function zoom(by, x = canvas.width / 2, y = canvas.height / 2) {
  if (!view) return;
  const [dx, dy] = [x - canvas.width / 2, y - canvas.height / 2];
  view = { x: view.x + (dx / view.scale) * (1 - 1 / by), y: view.y - (dy / view.scale) * (1 - 1 / by), scale: view.scale * by };
  draw();
}

function move(dx, dy) {
  if (!view) return;
  view = { ...view, x: view.x - dx / view.scale, y: view.y + dy / view.scale };
  draw();
}

function whole() {
  view = wholeView(points, canvas.width, canvas.height);
  draw();
}

const place = (event) => [event.offsetX * devicePixelRatio, event.offsetY * devicePixelRatio];
const touching = new Map();
let moved = 0;

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-0.0015 * event.deltaY * (event.deltaMode ? 30 : 1)), ...place(event));
}, { passive: false });

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  touching.set(event.pointerId, place(event));
  moved = 0;
  line = lassoing.ariaPressed === "true" || event.shiftKey ? [place(event)] : [];
});

canvas.addEventListener("pointermove", (event) => {
  const now = place(event);
  const before = touching.get(event.pointerId);
  if (!before) {
    const reach = 8 * devicePixelRatio;
    if (view) show(rowAt(...now, reach, points, view, canvas.width, canvas.height), event.offsetX, event.offsetY);
    return;
  }
  moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
  if (line.length) {
    // A browser may tell of several movements at once.
    const { left, top } = canvas.getBoundingClientRect();
    for (const each of event.getCoalescedEvents()) line.push([(each.clientX - left) * devicePixelRatio, (each.clientY - top) * devicePixelRatio]);
    line.push(now);
    draw();
  } else if (touching.size === 2) {
    const [other] = [...touching].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    const far = (at) => Math.hypot(at[0] - other[0], at[1] - other[1]);
    zoom(far(now) / (far(before) || 1), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  } else {
    move(now[0] - before[0], now[1] - before[1]);
  }
  touching.set(event.pointerId, now);
});

canvas.addEventListener("pointerup", async (event) => {
  touching.delete(event.pointerId);
  if (line.length > 2) {
    const rows = rowsWithin(line, points, view, canvas.width, canvas.height);
    line = [];
    select(rows, { only: true });
    tell(rows.length ? `${count(rows.length)} selected.` : "Nothing lies inside.");
  } else if (moved < 4 && view) {
    const [row, before] = [rowAt(...place(event), 10 * devicePixelRatio, points, view, canvas.width, canvas.height), pointed];
    await show(row, event.offsetX, event.offsetY);
    if (row >= 0 && (event.pointerType === "mouse" || row === before)) {
      await items([row]);
      if (known.has(row)) location.assign(`${root}/ask?id=${encodeURIComponent(known.get(row).id)}`);
    }
  }
  line = [];
  draw();
});

canvas.addEventListener("pointercancel", (event) => touching.delete(event.pointerId));
canvas.addEventListener("pointerleave", () => show(-1));
canvas.addEventListener("keydown", (event) => {
  const step = 60 * devicePixelRatio;
  const ways = {
    ArrowLeft: () => move(step, 0), ArrowRight: () => move(-step, 0), ArrowUp: () => move(0, step), ArrowDown: () => move(0, -step),
    "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: whole,
  };
  if (!ways[event.key] || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  ways[event.key]();
});

document.getElementById("closer").addEventListener("click", () => zoom(1.6));
document.getElementById("farther").addEventListener("click", () => zoom(1 / 1.6));
document.getElementById("whole").addEventListener("click", whole);
document.getElementById("in-view").addEventListener("click", () => view && select(rowsInView(), { only: true }));
lassoing.addEventListener("click", () => {
  lassoing.ariaPressed = String(lassoing.ariaPressed !== "true");
  canvas.classList.toggle("drawing", lassoing.ariaPressed === "true");
});

// ------------------------------------------------------------ the table beneath

function legend() {
  for (const link of document.querySelectorAll("#counts a[data-number]")) {
    const number = Number(link.dataset.number);
    link.previousSibling?.remove?.();
    const swatch = Object.assign(document.createElement("span"), { className: "swatch" });
    swatch.style.background = `rgb(${rgb(number, darkness.matches)})`;
    link.before(swatch);
    const emphasize = (which) => () => {
      emphasized = which;
      behind = null;
      draw();
    };
    for (const name of ["mouseenter", "focus"]) link.addEventListener(name, emphasize(number));
    for (const name of ["mouseleave", "blur"]) link.addEventListener(name, emphasize(-1));
  }
}

document.addEventListener("labeled", async () => {
  known.clear();
  const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  document.getElementById("counts").replaceWith(page.getElementById("counts"));
  legend();
  load();
});
darkness.addEventListener("change", () => {
  colors = colorTables(darkness.matches);
  legend();
  draw();
});
whenSelected(() => {
  behind = null;
  draw();
});

new ResizeObserver(() => {
  canvas.width = Math.round(map.clientWidth * devicePixelRatio);
  canvas.height = Math.round(map.clientHeight * devicePixelRatio);
  paint();
}).observe(map);
canvas.width = Math.round(map.clientWidth * devicePixelRatio);
canvas.height = Math.round(map.clientHeight * devicePixelRatio);
legend();
load();
