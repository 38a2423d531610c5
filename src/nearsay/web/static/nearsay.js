// Dropping pictures, the slider, suggestions, and errors shown without leaving the page.

const messages = document.getElementById("messages");
document.documentElement.classList.add("scripted");
// The path that a proxy serves the page at.
export const root = document.documentElement.dataset.root;

export function percent(share) {
  if (share > 0 && share < 0.005) return "< 1 %";
  return share >= 0.995 && share < 1 ? "> 99 %" : `${(100 * share).toFixed(0)} %`;
}

export function tell(text, undoEvent = null) {
  messages.textContent = text;
  if (undoEvent === null) return;
  const button = document.createElement("button");
  button.textContent = "Undo";
  button.addEventListener("click", async () => {
    const done = await post("/undo.json", { event: undoEvent });
    if (done) location.reload();
  });
  messages.append(" ", button);
}

export async function sure(words, yes) {
  const dialog = document.getElementById("ask-back");
  dialog.querySelector("p").textContent = words;
  dialog.querySelector("button[value=yes]").textContent = yes;
  dialog.returnValue = "no";
  dialog.showModal();
  dialog.querySelector("button[value=no]").focus();
  await new Promise((closed) => dialog.addEventListener("close", closed, { once: true }));
  return dialog.returnValue === "yes";
}

export async function post(path, fields) {
  const body = new URLSearchParams(fields);
  try {
    const answer = await fetch(root + path, { method: "POST", body });
    const data = await answer.json().catch(() => ({ error: "The server sent an unexpected answer." }));
    if (answer.ok && data.event) document.dispatchEvent(new CustomEvent("changed", { detail: data.event }));
    if (answer.ok) return data;
    // An undo that removes several items: confirm, then send it again.
    if (data.n_items) {
      const yes = `Yes, remove ${data.n_items.toLocaleString("en")} items`;
      return (await sure(data.error, yes)) ? await post(path, { ...fields, event: data.event, sure: "yes" }) : null;
    }
    tell(data.error);
  } catch {
    tell("The server does not respond. Is it still running?");
  }
  return null;
}

function dropping() {
  const form = document.getElementById("question");
  const field = form?.querySelector("input[type=file]");
  if (!field) return;
  const drop = field.closest(".drop");
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
    });
  }
  drop.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    field.files = event.dataTransfer.files;
    form.submit();
  });
  field.addEventListener("change", () => field.files.length && form.submit());
}

function hedging() {
  const slider = document.getElementById("accuracy");
  const answer = document.getElementById("answer");
  if (!slider || !answer) return;
  const hedges = JSON.parse(answer.dataset.hedges);
  const heed = () => {
    const accuracy = Number(slider.value);
    document.getElementById("requested").textContent = percent(accuracy);
    const hedge = hedges.find((each) => each.accuracy >= accuracy - 1e-9) ?? hedges.at(-1);
    if (hedge) show(hedge);
  };
  slider.addEventListener("input", heed);
  // Moved before this script arrived, or put back by the browser after a reload.
  if (slider.value !== slider.defaultValue) heed();
}

function show(hedge) {
  const made = (name, text, style = "") => Object.assign(document.createElement(name), { textContent: text, className: style });
  const headline = document.getElementById("hedged");
  const parts = [made("span", hedge.lead, "says"), " ", made("strong", hedge.words), " "];
  headline.replaceChildren(...parts, made("span", hedge.share === null ? "" : percent(hedge.share), "share"));
  headline.classList.toggle("unsure", !hedge.is_sure);
  const path = document.getElementById("path");
  if (!path) return;
  // The record is that of the node, and belongs below no other words.
  const isNode = !hedge.wider && hedge.node_path.length > 1;
  const { cases = 0, right = 0, low = 0, high = 1 } = (isNode && hedge.node_record) || {};
  const [all, good] = [cases, right].map((n) => n.toLocaleString("en"));
  document.getElementById("hedged-record").textContent = cases ? `Right in ${good} of ${all} hedged answers like this (${Math.round(100 * low)} to ${Math.round(100 * high)} %).` : "";
  const at = hedge.wider ?? hedge;
  path.replaceChildren(...at.node_path.map((step) => made("li", step)));
  const tree = document.getElementById("tree");
  if (!tree) return;
  tree.setAttribute("aria-label", `The tree: ${at.node_path.join(" › ")}, with the probabilities of the table below`);
  for (const group of tree.querySelectorAll("g[data-node]")) {
    const name = group.dataset.node;
    const mark = name === at.node ? "here" : at.node_path.includes(name) ? "way" : "";
    group.setAttribute("class", mark);
  }
}

// A correction is a form that works without a script; here its errors are shown without leaving the page.
function correcting() {
  for (const form of document.querySelectorAll("form[data-change]")) {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const fields = Object.fromEntries(new FormData(form, event.submitter));
      const done = await post("/change.json", fields);
      if (done) location.assign(root + done.see);
    });
  }
  document.getElementById("changed")?.focus();
  for (const details of document.querySelectorAll("details.correct")) {
    details.addEventListener("toggle", () => details.open && details.querySelector("button, input:not([type=hidden])").focus());
  }
}

// So is an undo; here it is confirmed without leaving the page.
function undoing() {
  for (const form of document.querySelectorAll("form[action='/undo']")) {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const n = Number(form.dataset.items ?? 1);
      const many = n > 1 && form.dataset.items;
      const fields = Object.fromEntries(new FormData(form));
      if (many && !(await sure(`Undo this change of ${n.toLocaleString("en")} items?`, "Yes, undo it"))) return;
      const done = await post("/undo.json", many ? { ...fields, sure: "yes" } : fields);
      if (done) location.assign(root + form.elements.back.value);
    });
  }
}

// Suggestions for what is being typed: ids of items, and labels where there are too many to be in the page.
let requests = 0;
export async function suggest(field) {
  const [path, name] = "find" in field.dataset ? ["/find.json", "ids"] : ["/labels.json", "labels"];
  if (name === "labels" && !("more" in (field.list?.dataset ?? {}))) return;
  const mine = (requests += 1);
  const answer = await fetch(`${root}${path}?q=${encodeURIComponent(field.value)}`).catch(() => null);
  if (!answer?.ok || mine !== requests) return;
  const data = await answer.json();
  const options = name === "ids" ? data.items.map((item) => ({ value: item.id, label: item.name })) : data.labels.map((value) => ({ value }));
  field.list.replaceChildren(...options.map((option) => Object.assign(document.createElement("option"), option)));
  field.dispatchEvent(new CustomEvent("suggested"));
}

// Listened for on the document, since fields appear while scrolling.
document.addEventListener("input", (event) => {
  if (event.target.matches("input[data-find], input[list=labels]")) suggest(event.target);
});

// More neighbors, and more columns of a table.
function unfolding() {
  for (const [kind, style] of [["unfold", "unfolded"], ["columns", "all-columns"]]) {
    for (const button of document.querySelectorAll(`[data-${kind}]`)) {
      button.addEventListener("click", () => {
        button.ariaExpanded = String(document.getElementById(button.dataset[kind]).classList.toggle(style));
      });
    }
  }
}

// The first page, until everything on it is counted.
async function counting() {
  while (document.getElementById("start")?.dataset.counting) {
    await new Promise((later) => setTimeout(later, 1500));
    const answer = await fetch(location.href).catch(() => null);
    if (!answer?.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("start");
    if (!fresh) return;
    // What is being typed stays.
    fresh.querySelector("#question")?.replaceWith(document.getElementById("question"));
    const typing = document.activeElement?.id;
    document.getElementById("start").replaceWith(fresh);
    if (typing) document.getElementById(typing)?.focus();
  }
}

unfolding();
counting();
dropping();
hedging();
correcting();
undoing();
