// Review by keyboard: Enter accepts, typing corrects, arrows move, U takes the last decision back.
import { post, suggest, tell } from "./nearsay.js";

const list = document.getElementById("review");
const labels = () => [...document.querySelectorAll("#labels option")].map((each) => each.value);
const made = [];

const items = () => [...list.children].filter((item) => !item.hidden);
const field = (item) => item.querySelector("input[name=label]");

// The label that is meant: the same, one that begins so, or one that has it within; else what was typed.
function meant(typed) {
  const text = typed.trim().toLowerCase();
  if (!text) return "";
  const known = labels();
  const low = known.map((label) => label.toLowerCase());
  const at = [
    low.indexOf(text),
    low.findIndex((label) => label.startsWith(text)),
    low.findIndex((label) => label.includes(text)),
  ].find((place) => place >= 0);
  return at === undefined ? typed.trim() : known[at];
}

function go(item) {
  if (!item) return;
  item.focus();
  item.scrollIntoView({ block: "nearest" });
}

function count(id, by) {
  const shown = document.getElementById(id);
  if (shown) shown.textContent = (Number(shown.textContent.replaceAll(",", "")) + by).toLocaleString("en");
}

function moved(n) {
  count("waiting", -n);
  count("reviewed", n);
  const progress = document.getElementById("progress");
  if (progress) progress.value += n;
}

async function decide(item, what, label) {
  if (item.dataset.busy) return;
  item.dataset.busy = "yes";
  const form = item.querySelector("form");
  const fields = { ...Object.fromEntries(new FormData(form)), do: what, label };
  const done = await post("/review.json", fields);
  delete item.dataset.busy;
  if (!done) return;
  const open = items();
  const next = open[open.indexOf(item) + 1] ?? open[open.indexOf(item) - 1];
  item.hidden = true;
  made.push({ item, event: done.event });
  moved(1);
  tell(`${item.dataset.item}: ${done.after.label}`);
  if (next) go(next);
  else location.reload();
}

async function undo() {
  const last = made.pop();
  if (!last) {
    document.querySelector("#undo-last button")?.click();
    return;
  }
  const done = await post("/review.json", { batch: list.dataset.batch, do: "undo", event: last.event });
  if (!done) {
    made.push(last);
    return;
  }
  last.item.hidden = false;
  field(last.item).value = "";
  show(last.item);
  moved(-1);
  tell(`${last.item.dataset.item} is open again.`);
  go(last.item);
}

function show(item) {
  const typed = field(item).value;
  const label = meant(typed);
  const known = labels().includes(label);
  item.querySelector(".match").textContent = !label ? "" : known ? `Enter: ${label}` : `Enter: ${label}, a new label`;
}

function keys(event, item) {
  const input = field(item);
  const typing = event.target === input;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    // In the field arrows choose among the labels, once something is typed.
    if (typing && input.value) return;
    event.preventDefault();
    const open = items();
    go(open[open.indexOf(item) + (event.key === "ArrowDown" ? 1 : -1)]);
  } else if (event.key === "Escape" && typing) {
    input.value = "";
    show(item);
    item.focus();
  } else if (event.key === "Enter" && (typing || event.target === item)) {
    event.preventDefault();
    // What is meant is known when the suggestions for all of it are there.
    if (typing && input.value.trim()) suggest(input).then(() => decide(item, "correct", meant(input.value)));
    else if (item.dataset.label) decide(item, "accept", "");
  } else if (event.target === item && ["1", "2", "3"].includes(event.key)) {
    const guess = item.querySelectorAll("button[name=guess]")[Number(event.key) - 1];
    if (!guess) return;
    event.preventDefault();
    decide(item, guess.value === item.dataset.label ? "accept" : "correct", guess.value);
  } else if (event.target === item && event.key.toLowerCase() === "u") {
    event.preventDefault();
    undo();
  } else if (event.target === item && event.key.length === 1 && !" ?".includes(event.key)) {
    input.focus();
  }
}

function begin() {
  document.getElementById("keys").hidden = false;
  for (const item of list.children) {
    item.tabIndex = 0;
    item.addEventListener("keydown", (event) => keys(event, item));
    for (const name of ["input", "suggested"]) field(item).addEventListener(name, () => show(item));
    item.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      const guess = event.submitter?.name === "guess" ? event.submitter.value : null;
      if (guess !== null) return decide(item, guess === item.dataset.label ? "accept" : "correct", guess);
      const what = event.submitter?.value ?? "accept";
      suggest(field(item)).then(() => decide(item, what, what === "correct" ? meant(field(item).value) : ""));
    });
  }
  go(list.firstElementChild);
}

if (list && document.getElementById("keys")) begin();
