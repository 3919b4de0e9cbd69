// Questions to the server: written into one of Gradio's hidden fields, answered by HTML in one of its outputs.

import { busy, complain } from "./notices.js";

export const GONE = "The server does not answer. Is “mocosearch serve” still running?";

const OUTPUTS = { look: "view", act: "view", next: "more", photo: "detail" };
const PATIENCE = 3000; // milliseconds before the server is asked whether it is there
const TRIES = 10;

const waiting = {}; // by output: the number of its last question, and what is done with the answer
let count = 0;

// Ask by a field; the promise is of the answer's element, and is never kept when another question comes first.
export function ask(field, words) {
  const number = String(++count); // new every time: Gradio reacts to changes only
  const box = document.querySelector(`#${field} textarea, #${field} input`);
  box.value = `${words} ${number}`;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  return answer(OUTPUTS[field], number);
}

// The first view comes unasked.
export const firstView = () => answer("view", "0");

function answer(output, number) {
  watch(0);
  return new Promise((resolve) => {
    waiting[output] = { number, resolve };
    look();
  });
}

function look() {
  for (const [output, { number, resolve }] of Object.entries(waiting)) {
    const found = document.querySelector(`#${output} [data-ask="${number}"]`);
    if (!found) continue;
    delete waiting[output];
    if (document.getElementById("notice")?.textContent === GONE) complain("");
    resolve(found);
  }
}

new MutationObserver(look).observe(document.body, { childList: true, subtree: true });

// Gradio is silent when an answer fails to come.
let alarm = 0;
function watch(tries) {
  clearTimeout(alarm);
  alarm = setTimeout(check, PATIENCE, tries);
}

async function check(tries) {
  if (!Object.keys(waiting).length) return;
  try {
    const answered = await fetch("/page/page.js", { cache: "no-store" });
    if (answered.status === 401) return location.reload(); // signed out: the form comes, and leads back to here
    if (tries < TRIES) return watch(tries + 1);
    complain("The answer takes very long: reload the page.");
  } catch {
    complain(GONE);
  }
  busy(false);
}
