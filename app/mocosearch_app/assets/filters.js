// The filters: a form that shows what the address says and changes it.

import { filtered, parse } from "./address.js";
import { go, look, onView } from "./views.js";

const form = () => document.getElementById("filters");
const field = (name) => form().elements.namedItem(name);

onView((section) => {
  const { filters, like } = parse(section.dataset.look);
  const count = Object.keys(filters).length;
  const button = document.getElementById("ask-filters");
  button.dataset.count = count || "";
  if (count) unfold(true);
  form().classList.toggle("of-search", like.length > 0);
  if (!filters.min) fitScores(section.querySelector(".search")?.dataset.lowest ?? 0);
  for (const [name, value] of Object.entries(shownIn(filters))) {
    if (document.activeElement !== field(name)) field(name).value = value;
  }
  showScore();
});

// As the fields of the form take them: days, where an address may say 2024 or 2024-05.
function shownIn({ folder = "", from = "", to = "", min = field("min").min }) {
  return { folder, from: from && `${from}-01-01`.slice(0, 10), to: to && lastDay(to), min };
}

// The scores of a search often lie close together: the slider reaches from the lowest of them up, and chooses all there.
function fitScores(lowest) {
  field("min").min = Math.floor(lowest * 1000) / 1000;
}

function lastDay(date) {
  const [year, month = 12, day] = date.split("-").map(Number);
  if (day) return date;
  return new Date(Date.UTC(year, month, 0)).toISOString().slice(0, 10);
}

function showScore() {
  form().querySelector("output").value = leastScore() ? Number(leastScore()).toFixed(3) : "any";
}

function leastScore() {
  const { value, min } = field("min");
  return Number(value) > Number(min) ? value : "";
}

function unfold(on) {
  form().hidden = !on;
  document.getElementById("ask-filters").setAttribute("aria-expanded", String(on));
}

let folders = null;
async function suggestFolders() {
  if (folders) return;
  folders = document.getElementById("folders");
  const answer = await fetch("/api/folders");
  if (!answer.ok) return;
  for (const { folder, photos } of await answer.json()) {
    folders.append(Object.assign(document.createElement("option"), { value: folder, label: `${photos} photos` }));
  }
}

function apply() {
  if (!form().checkValidity()) return; // a year that is still being typed
  const chosen = Object.fromEntries(new FormData(form()));
  const isSearch = parse(look()).like.length > 0;
  go(filtered(look(), { ...chosen, min: isSearch ? leastScore() : "" }));
}

document.addEventListener("input", (event) => event.target.name === "min" && showScore());
document.addEventListener("change", (event) => event.target.form?.id === "filters" && apply());
document.addEventListener("focusin", (event) => event.target.name === "folder" && suggestFolders());
document.addEventListener("submit", (event) => {
  if (event.target.id !== "filters") return;
  event.preventDefault();
  apply();
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.id === "ask-filters") unfold(form().hidden);
  if (button?.matches(".clear-filters")) go(filtered(look(), {}));
});
