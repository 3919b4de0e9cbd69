// Searching with a picture of the person's own: chosen, dropped or pasted.

import { filtered, parse, wanted } from "./address.js";
import { busy, complain } from "./notices.js";
import { GONE } from "./questions.js";
import { go } from "./views.js";

const LARGEST = 64 * 1024 * 1024; // bytes, as the server takes them

let latest = null; // the file that was chosen last

async function search(file) {
  if (file.size > LARGEST) return complain("This file is larger than 64 MB: choose a smaller copy of the picture.");
  complain("");
  busy(true);
  latest = file;
  const from = wanted();
  const isElsewhere = () => file !== latest || wanted() !== from; // and wants no more to do with this picture
  try {
    const answer = await fetch("/api/queries", { method: "POST", body: file });
    const { look, detail } = await answer.json();
    if (isElsewhere()) return;
    if (answer.ok) return go(filtered(look, parse(from).filters));
    complain(detail);
  } catch {
    if (isElsewhere()) return;
    complain(GONE);
  }
  busy(false);
}

function searchFirstOf(files) {
  const file = [...files].find((each) => each.type.startsWith("image/")) ?? files[0];
  if (file) search(file);
  else complain("Drop a picture file: addresses of pictures are not fetched.");
}

document.addEventListener("change", (event) => {
  if (event.target.id !== "picture") return;
  searchFirstOf(event.target.files);
  event.target.value = ""; // so that the same file can be chosen again
});

document.addEventListener("paste", (event) => {
  const files = event.clipboardData?.files ?? [];
  if (files.length) searchFirstOf(files);
});

let inside = 0; // dragenter and dragleave come for every element on the way
function cover(change) {
  inside = Math.max(0, change ? inside + change : 0);
  document.getElementById("drop").hidden = inside === 0;
}
document.addEventListener("dragenter", () => cover(1));
document.addEventListener("dragleave", () => cover(-1));
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  cover(0);
  searchFirstOf(event.dataTransfer.files);
});
