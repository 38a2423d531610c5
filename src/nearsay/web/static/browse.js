// Lists of items: more of them as you scroll, those out of sight emptied, and changes without leaving the page.

import { post, root, tell } from "./nearsay.js";
import { count, select, selection, setHere, whenSelected } from "./selection.js";

const grid = document.getElementById("grid");
const IN_A_PAGE = 60;

async function tilesOf(address) {
  const answer = await fetch(address);
  if (!answer.ok) return null;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return { tiles: page.querySelectorAll("#grid .tile"), next: page.getElementById("next")?.getAttribute("href") ?? null };
}

// Rows that came onto this page, in sight or scrolled past.
const here = new Set();

function marked(tiles) {
  for (const tile of tiles) {
    here.add(Number(tile.dataset.row));
    const box = tile.querySelector(".pick input");
    if (box) box.checked = selection.has(Number(tile.dataset.row));
    tile.classList.toggle("selected", Boolean(box?.checked));
  }
}

// A page of tiles is a list of its own. Out of sight it keeps its height and nothing else.
class Page {
  constructor(list, address) {
    this.list = list;
    this.address = address;
    this.full = list.children.length > 0;
    nearby.observe(list);
    pages.set(list, this);
  }

  empty() {
    if (!this.full || this.list.contains(document.activeElement)) return;
    this.list.style.height = `${this.list.offsetHeight}px`;
    this.list.replaceChildren();
    this.full = false;
  }

  async fill() {
    if (this.full) return;
    this.full = true;
    const loaded = await tilesOf(this.address);
    if (!loaded || !this.full) return;
    this.list.replaceChildren(...loaded.tiles);
    this.list.style.height = "";
    show(this.list.children);
  }
}

const pages = new Map();
const nearby = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) pages.get(entry.target).fill();
      else pages.get(entry.target).empty();
    }
  },
  { rootMargin: "900px 0px" },
);

function addPage(address, tiles) {
  const list = document.createElement("ul");
  list.className = "tiles items";
  list.append(...tiles);
  grid.append(list);
  show(list.children);
  return new Page(list, address);
}

// Tick the tiles that are selected, and count anew what is selected elsewhere.
function show(tiles) {
  marked(tiles);
  setHere((row) => grid.dataset.selected || here.has(row));
}

function growing() {
  if (grid.dataset.selected) return showSelected();
  show(grid.querySelectorAll(".tile"));
  new Page(grid.querySelector("ul"), location.pathname + location.search);
  const link = document.getElementById("next");
  if (!link) return;
  let loading = false;
  const more = async () => {
    if (loading) return;
    loading = true;
    const address = link.getAttribute("href");
    const loaded = await tilesOf(address);
    loading = false;
    if (!loaded) return;
    addPage(address, loaded.tiles);
    if (!loaded.next) return link.remove();
    link.href = loaded.next;
    // Observed again, it reports at once: it may be near still.
    near.unobserve(link);
    near.observe(link);
  };
  link.addEventListener("click", (event) => {
    event.preventDefault();
    more();
  });
  const near = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && more(), {
    rootMargin: "900px 0px",
  });
  near.observe(link);
}

async function showSelected() {
  const rows = [...selection].sort((a, b) => a - b);
  document.getElementById("count").textContent = rows.length ? `${count(rows.length)}.` : "Nothing is selected.";
  for (let start = 0; start < rows.length; start += IN_A_PAGE) {
    const address = `${root}/items?rows=${rows.slice(start, start + IN_A_PAGE).join(",")}`;
    const page = addPage(address, []);
    if (start) page.list.style.height = "80rem"; // a guess, until it is seen
    else await page.fill();
  }
}

grid?.addEventListener("change", (event) => {
  const tile = event.target.closest(".pick") && event.target.closest(".tile");
  if (!tile) return;
  select([Number(tile.dataset.row)], { not: !event.target.checked });
});
whenSelected(() => grid && marked(grid.querySelectorAll(".tile")));
document.addEventListener("labeled", () => {
  for (const page of pages.values()) {
    if (!page.full) continue;
    page.full = false;
    page.fill();
  }
});

// A change of one item: the tile is shown as it is now; a card that is dealt with goes.
async function change(form, button) {
  const fields = { ...Object.fromEntries(new FormData(form)), do: button?.value ?? "relabel" };
  const done = await post("/change.json", fields);
  if (!done) return;
  const [was, is] = [done.before.label ?? "no label", done.after?.label ?? "no label"];
  const words = {
    confirm: () => `${is} is right.`,
    forget: () => `${fields.id} is forgotten.`,
    keywords: () => `Keywords: ${(done.after.keywords ?? []).join(", ") || "none"}.`,
    relabel: () => `${was} → ${is}`,
  };
  tell(words[fields.do](), done.event);
  const tile = form.closest(".tile");
  if (tile) {
    const [fresh] = (await tilesOf(`${root}/items?row=${tile.dataset.row}`))?.tiles ?? [];
    if (!fresh) return;
    tile.replaceWith(fresh);
    marked([fresh]);
    fresh.querySelector("summary")?.focus();
    return;
  }
  const card = form.closest(".card");
  const neighbor = card.nextElementSibling ?? card.previousElementSibling;
  card.remove();
  if (neighbor) neighbor.querySelector("button")?.focus();
  else location.reload();
}

// Before the listeners of single forms, which load the page again.
document.addEventListener(
  "submit",
  (event) => {
    const form = event.target.closest("#grid form, #cards form");
    if (!form) return;
    event.preventDefault();
    event.stopPropagation();
    change(form, event.submitter);
  },
  true,
);

if (grid) growing();
