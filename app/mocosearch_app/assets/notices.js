// Words for the person: what went wrong, what is there now for those who hear it, and that work is under way.

const place = (id) => document.getElementById(id);

export function complain(text) {
  const notice = place("notice");
  if (!notice) return; // the page is not there yet
  notice.hidden = !text;
  notice.textContent = text;
  if (text) document.querySelector("#panel[open]")?.close(); // it would lie over the words
}

export function say(text) {
  place("status").textContent = text;
}

export function busy(on) {
  document.body.classList.toggle("busy", on);
  place("view")?.setAttribute("aria-busy", String(on));
}

// Put a text on the clipboard, and tell so on the button that was pressed.
export async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    if (!copyAsOfOld(text, button)) return complain("The browser does not allow to copy: mark the text and copy it.");
  }
  say("Copied");
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1600);
}

// Over plain http from another machine, browsers have no clipboard but this one.
function copyAsOfOld(text, near) {
  const box = Object.assign(document.createElement("textarea"), { value: text, className: "unseen" });
  near.after(box); // inside of a dialog that is open nothing else can be selected
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  near.focus();
  return done;
}
