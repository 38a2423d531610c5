// Keyboard shortcuts: the list of them, moving between items, and actions on the item in focus.

const ITEMS = ".tiles > li, .cards > li";
const help = document.getElementById("help");

const typing = (element) => element.closest("textarea, select, [role=textbox], input:not([type=checkbox], [type=radio], [type=range], [type=file])");
const here = () => document.activeElement?.closest(ITEMS) ?? null;
const within = (item, what) => (item ?? document.querySelector(".query"))?.querySelector(what) ?? null;

function step(by) {
  const items = [...document.querySelectorAll(ITEMS)];
  if (!items.length) return false;
  const at = items.indexOf(here());
  const next = items[Math.max(0, Math.min(items.length - 1, at < 0 ? 0 : at + by))];
  next.querySelector("a, button, summary")?.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

function correct() {
  const details = within(here(), "details.correct");
  if (details) details.open = true;
  const field = details ?? within(here(), ".typed input[name=label]");
  if (field && !details) field.focus();
  return Boolean(field);
}

function press(what) {
  const target = within(here(), what);
  target?.click();
  return Boolean(target);
}

function undo() {
  const button = document.querySelector("#messages button, #changed [data-undo] button, #undo-last button");
  button?.click();
  return Boolean(button);
}

function search() {
  const field = document.querySelector("#typed, .filters input[name=label]");
  field?.focus();
  return Boolean(field);
}

function show() {
  help.showModal();
  return true;
}

const WAYS = {
  "?": show,
  "/": search,
  j: () => step(1),
  k: () => step(-1),
  c: correct,
  a: () => press("[data-key=a]"),
  r: () => press("[data-key=r]"),
  x: () => press(".pick input"),
  u: undo,
};

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const inReview = event.target.closest("#review > li");
  const way = WAYS[event.key.length === 1 ? event.key.toLowerCase() : ""];
  if (!way || (inReview && event.key !== "?")) return;
  if (way()) event.preventDefault();
});

document.getElementById("keys-shown")?.addEventListener("click", show);
