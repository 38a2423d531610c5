// The little that a page cannot do alone: drop a picture, move the slider, correct and see what changed.

const told = document.getElementById("told");
const percent = (share) => `${(100 * share).toFixed(0)} %`;

export function tell(text, undoEvent = null) {
  told.textContent = text;
  if (undoEvent === null) return;
  const button = document.createElement("button");
  button.textContent = "Undo";
  button.addEventListener("click", async () => {
    const done = await post("/undo.json", { event: undoEvent });
    if (done) location.reload();
  });
  told.append(" ", button);
}

export async function post(path, fields) {
  const body = new URLSearchParams(fields);
  const answer = await fetch(path, { method: "POST", body });
  const data = await answer.json();
  if (!answer.ok) {
    tell(data.error);
    return null;
  }
  return data;
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

async function hedging() {
  const slider = document.getElementById("accuracy");
  const answer = document.getElementById("answer");
  if (!slider || !answer) return;
  const { answer: said } = await (await fetch(answer.dataset.source)).json();
  const show = () => {
    const asked = Number(slider.value);
    const hedge = said.hedges.find((each) => each.accuracy >= asked - 1e-9) ?? said.hedges.at(-1);
    document.getElementById("asked-for").textContent = percent(asked);
    const sentence = document.getElementById("hedged");
    const strong = document.createElement("strong");
    strong.textContent = hedge.node_word ?? hedge.node;
    const sure = document.createElement("span");
    sure.textContent = ` ${percent(hedge.node_probability)}`;
    if (hedge.node === said.label) sentence.replaceChildren("Sure enough to say ", strong, sure);
    else if (hedge.node_path.length > 1) sentence.replaceChildren("Not sure which, but ", strong, sure);
    else sentence.replaceChildren("Not sure of anything", sure);
    document.getElementById("path").replaceChildren(
      ...hedge.node_path.map((step) => Object.assign(document.createElement("li"), { textContent: step })),
    );
  };
  slider.addEventListener("input", show);
}

// A correction is made, the page asked again, and what changed is told.
function correcting() {
  for (const form of document.querySelectorAll("form[data-change]")) {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const fields = { ...Object.fromEntries(new FormData(form)), do: event.submitter?.value ?? "relabel" };
      const source = document.getElementById("answer")?.dataset.source;
      const before = source ? (await (await fetch(source)).json()).answer : null;
      const done = await post("/change.json", fields);
      if (!done) return;
      const after = source ? (await (await fetch(source)).json()).answer : null;
      const parts = [`${done.before.label ?? "no label"} → ${done.after.label ?? "no label"}`];
      if (before?.label && after?.label) {
        parts.push(`answer: ${before.label} ${percent(before.probability)} → ${after.label} ${percent(after.probability)}`);
      }
      sessionStorage.setItem("told", JSON.stringify({ text: parts.join("; "), event: done.event }));
      location.reload();
    });
  }
  const kept = sessionStorage.getItem("told");
  if (kept) {
    sessionStorage.removeItem("told");
    const { text, event } = JSON.parse(kept);
    tell(text, event);
  }
  for (const details of document.querySelectorAll("details.correct")) {
    details.addEventListener("toggle", () => details.open && details.querySelector("input[name=label]").focus());
  }
}

dropping();
hedging();
correcting();
