// Dropped files, the progress of a job, and the page that follows it.

import { root } from "./nearsay.js";

const number = (n) => n.toLocaleString("en");

function words(job) {
  if (job.ending) return "Canceling …";
  if (job.state === "waiting") return "Waiting for another job.";
  return job.n_all ? `${number(job.n_done)} of ${number(job.n_all)}` : "Started.";
}

function follow(box) {
  const source = new EventSource(`${root}/jobs/${box.dataset.job}/events`);
  source.addEventListener("message", (event) => {
    const job = JSON.parse(event.data);
    if (["done", "failed", "canceled"].includes(job.state)) {
      source.close();
      location.assign(job.state === "done" ? box.dataset.next : `${root}/jobs/${job.key}`);
      return;
    }
    const bar = box.querySelector("progress");
    if (job.n_all) {
      bar.max = job.n_all;
      bar.value = job.n_done;
    }
    box.querySelector("[data-message]").textContent = words(job);
  });
}

function dropping(drop) {
  const field = drop.querySelector("input[type=file]");
  const words = drop.querySelector("span");
  const prompt = words.textContent;
  const chosen = () => {
    const n = field.files.length;
    words.textContent = n === 0 ? prompt : n === 1 ? field.files[0].name : `${number(n)} files chosen`;
  };
  field.addEventListener("change", chosen);
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files.length) {
        field.files = event.dataTransfer.files;
        chosen();
      }
    });
  }
}

document.querySelectorAll(".upload .drop").forEach(dropping);
document.querySelectorAll("[data-job]").forEach(follow);
