// Which items are selected: kept between pages until this tab is closed, and labeled together.

import { post, sure, tell } from "./nearsay.js";

const name = `selected in ${document.querySelector(".brand a").textContent}`;
const form = document.getElementById("bulk");
const kept = () => JSON.parse(sessionStorage.getItem(name) ?? "[]");
export const selection = new Set(kept());
const watching = [];
// Whether an item can be seen on this page; on a map, all can.
let isHere = () => true;

export const count = (n) => `${n.toLocaleString("en")} ${n === 1 ? "item" : "items"}`;

// Called whenever something else is selected.
export function whenSelected(show) {
  watching.push(show);
}

// Says which items are on this page: the others that are selected are counted apart.
export function setHere(tells) {
  isHere = tells;
  showCount();
}

export function select(rows, { only = false, not = false } = {}) {
  if (only) selection.clear();
  for (const row of rows) {
    if (not) selection.delete(row);
    else selection.add(row);
  }
  try {
    sessionStorage.setItem(name, JSON.stringify([...selection]));
  } catch {
    sessionStorage.removeItem(name); // too many to be kept: they are selected on this page only
  }
  showCount();
  for (const show of watching) show();
}

function showCount() {
  if (!form) return;
  form.classList.toggle("none", selection.size === 0);
  const away = countAway();
  const apart = away ? `, ${away.toLocaleString("en")} of them not on this page` : "";
  document.getElementById("picked").textContent = `${count(selection.size)} selected${apart}.`;
}

const countAway = () => [...selection].filter((row) => !isHere(row)).length;

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const label = form.elements.label.value.trim();
  if (!selection.size) return tell("Select some items first.");
  if (!label) {
    form.elements.label.focus();
    return tell("Type the label first.");
  }
  const away = countAway();
  const apart = away ? ` ${away.toLocaleString("en")} of them ${away === 1 ? "is" : "are"} not on this page.` : "";
  const many = selection.size > Number(form.dataset.sure) || away > 0;
  if (many && !(await sure(`Give ${count(selection.size)} the label “${label}”?${apart}`, "Yes, label them"))) return;
  const version = form.elements.version;
  const done = await post("/label-many.json", { rows: [...selection].join(","), label, version: version.value, ...(many && { sure: "yes" }) });
  if (!done) return;
  version.value = done.version;
  select([], { only: true });
  form.elements.label.value = "";
  tell(`${count(done.items)} labeled ${done.label}.`, done.event);
  document.dispatchEvent(new CustomEvent("labeled", { detail: done }));
});

// What this page changed itself was not changed by somebody else.
document.addEventListener("changed", (event) => {
  if (form && event.detail === Number(form.elements.version.value) + 1) form.elements.version.value = event.detail;
});

// A page that the browser kept as it was shows what was selected on others since.
window.addEventListener("pageshow", (event) => event.persisted && select(kept(), { only: true }));
document.getElementById("clear")?.addEventListener("click", () => select([], { only: true }));
showCount();
