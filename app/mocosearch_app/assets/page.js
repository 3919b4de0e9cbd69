// The page's own behavior: the address behind # says what to look at, Gradio's hidden field asks the server for it.

const LARGEST = 64 * 1024 * 1024; // bytes, as in api.py
const GONE = "The server does not answer. Is “mocosearch serve” still running?";
const find = (selector) => document.querySelector(selector);

let asks = 0; // questions so far
let asked = 0; // the number of the last look that was asked for; 0: the server's choice
let last = null; // the section that is on the page
let again = 0;

// The look in an address, in one spelling; the photo in the panel is no matter of it.
function canonical(address) {
  const fields = new URLSearchParams(address);
  fields.delete("open");
  return fields.toString().replace(/=(?=&|$)/, ""); // the tabs have no value
}

const wanted = () => canonical(location.hash.slice(1));

// Put a question into one of Gradio's hidden fields, which sends it off.
function put(field, words) {
  const box = find(`#${field} textarea, #${field} input`);
  box.value = `${words} ${++asks}`; // new every time: Gradio reacts to changes only
  box.dispatchEvent(new Event("input", { bubbles: true }));
  return asks;
}

function ask(look) {
  clearTimeout(again);
  busy(true);
  expectAnswer(0);
  asked = put("look", look);
}

// Gradio is silent when an answer fails to come.
let alarm = 0;
async function checkServer(asksBefore) {
  try {
    await fetch("/healthz", { cache: "no-store" });
    if (asksBefore < 10) return expectAnswer(asksBefore + 1);
    notice("The answer takes very long: reload the page.");
  } catch {
    notice(GONE);
  }
  busy(false);
}

function expectAnswer(asksBefore) {
  alarm = setTimeout(checkServer, 3000, asksBefore);
}

function busy(on) {
  clearTimeout(alarm);
  document.body.classList.toggle("busy", on);
  find("#view")?.setAttribute("aria-busy", String(on));
}

function notice(text) {
  const place = find("#notice");
  place.hidden = !text;
  place.textContent = text;
}

let wall = null; // the wall to go back to
const anyWall = () => `wall=${Math.floor(Math.random() * 1_000_000)}`;

function go(look) {
  notice("");
  if (canonical(look) !== wanted()) location.hash = look; // and that asks
  else if (look !== last?.dataset.look) ask(look);
  else busy(false);
}

// Gradio has put a new view in place.
function shown(section) {
  const { look, ask: number } = section.dataset;
  if (number !== "0" && Number(number) !== asked) return; // an answer that was overtaken by the next question
  if (number === "0") {
    // The first view, also of a server that is back, is a wall of its choice; the address may want something else.
    if (wanted() && wanted() !== canonical(look)) return ask(wanted());
    history.replaceState(null, "", `#${look}`);
  } else if (look !== last?.dataset.look) {
    scrollTo({ top: 0 });
    section.querySelector("h1")?.focus({ preventScroll: true });
  }
  last = section;
  busy(false);
  if (section.dataset.again) again = setTimeout(() => ask(wanted()), Number(section.dataset.again)); // work goes on
  if (look.startsWith("wall=")) wall = look;
  document.title = `${section.dataset.title} · mocosearch`;
}

async function search(file) {
  if (file.size > LARGEST) return notice("This file is larger than 64 MB: choose a smaller copy of the picture.");
  notice("");
  busy(true);
  try {
    const answer = await fetch("/api/queries", { method: "POST", body: file });
    const { look, detail } = await answer.json();
    if (answer.ok) return go(look);
    notice(detail);
  } catch {
    notice(GONE);
  }
  busy(false);
}

function searchFirstOf(files) {
  const file = [...files].find((each) => each.type.startsWith("image/")) ?? files[0];
  if (file) search(file);
  else notice("Drop a picture file: addresses of pictures are not fetched.");
}

addEventListener("hashchange", () => {
  const look = wanted();
  if (look) ask(look);
  else go(wall ?? anyWall());
});

document.addEventListener("click", (event) => {
  const action = event.target.closest("[data-action]");
  if (action) return (asked = put("act", action.dataset.action));
  if (event.target.closest("#surprise")) return go(anyWall());
  const link = event.target.closest('a[href^="#"]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault(); // the page has a base address, which would turn this into a reload
  go(link.getAttribute("href").slice(1) || (wall ?? anyWall()));
});

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
  find("#drop").hidden = inside === 0;
}
document.addEventListener("dragenter", () => cover(1));
document.addEventListener("dragleave", () => cover(-1));
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  cover(0);
  searchFirstOf(event.dataTransfer.files);
});

let seen = null;
new MutationObserver(() => {
  const section = find("#view #shown");
  if (!section || section === seen) return;
  seen = section;
  shown(section);
}).observe(document.body, { childList: true, subtree: true });
