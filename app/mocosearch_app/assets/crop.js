// A rectangle on the picture that is searched with: drawn, moved or resized; the search follows when it is let go.

import { withPart } from "./address.js";
import { go, look, onView } from "./views.js";

const WHOLE = 1000; // per mille of a side
const SMALLEST = 40;
const KEY_STEP = 25;
const KEY_PAUSE = 700; // milliseconds without a key after which the search follows

let drag = null; // { cropper, kind, from, box: as it was, moved }
let pause = 0;

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
const cropperOf = (event) => event.target.closest?.("#cropper");
const read = (cropper) => (cropper.dataset.box ? cropper.dataset.box.split(",").map(Number) : null);

function show(cropper, box) {
  cropper.dataset.box = box ? box.join(",") : "";
  const part = cropper.querySelector(".part");
  part.hidden = !box;
  if (!box) return;
  const [left, top, width, height] = box.map((side) => `${side / 10}%`);
  Object.assign(part.style, { left, top, width, height });
}

function search(cropper) {
  clearTimeout(pause);
  const { example, box } = cropper.dataset;
  go(withPart(look(), example, box ? read(cropper) : null));
}

onView((section) => {
  drag = null;
  clearTimeout(pause);
  const cropper = section.querySelector("#cropper");
  if (cropper) show(cropper, read(cropper));
});

// ---- pointer

function place({ clientX, clientY }, cropper) {
  const { left, top, width, height } = cropper.getBoundingClientRect();
  const along = (offset, side) => Math.round(clamp(offset / side, 0, 1) * WHOLE);
  return [along(clientX - left, width), along(clientY - top, height)];
}

function between([x, y], [a, b]) {
  return [Math.min(x, a), Math.min(y, b), Math.abs(x - a), Math.abs(y - b)];
}

function moved([left, top, width, height], [right, down]) {
  return [clamp(left + right, 0, WHOLE - width), clamp(top + down, 0, WHOLE - height), width, height];
}

document.addEventListener("pointerdown", (event) => {
  const cropper = cropperOf(event);
  if (!cropper || event.button) return;
  event.preventDefault();
  cropper.focus({ preventScroll: true });
  cropper.setPointerCapture(event.pointerId);
  const box = read(cropper);
  const corner = event.target.dataset.corner; // "left top", ...: the rectangle is drawn on from the opposite one
  if (corner) {
    const [x, y] = corner.split(" ");
    const from = [x === "left" ? box[0] + box[2] : box[0], y === "top" ? box[1] + box[3] : box[1]];
    drag = { cropper, kind: "draw", from, box };
  } else {
    drag = { cropper, kind: event.target.closest(".part") ? "move" : "draw", from: place(event, cropper), box };
  }
});

document.addEventListener("pointermove", (event) => {
  if (!drag) return;
  const { cropper, kind, from, box } = drag;
  const to = place(event, cropper);
  drag.moved = true;
  show(cropper, kind === "draw" ? between(from, to) : moved(box, [to[0] - from[0], to[1] - from[1]]));
});

document.addEventListener("pointerup", () => {
  if (!drag) return;
  const { cropper, box, moved: hasMoved } = drag;
  drag = null;
  const drawn = read(cropper);
  const isSmall = !drawn || drawn[2] < SMALLEST || drawn[3] < SMALLEST; // a slip
  if (!hasMoved || isSmall) return show(cropper, box);
  search(cropper);
});

document.addEventListener("pointercancel", giveUp);

function giveUp() {
  if (drag) show(drag.cropper, drag.box);
  drag = null;
}

addEventListener("hashchange", () => clearTimeout(pause)); // something else is looked at

// ---- keyboard: arrows move, with Shift they resize; Enter searches at once, Delete takes the rectangle away, Escape
// gives up one that is being drawn

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

document.addEventListener("keydown", (event) => {
  const cropper = cropperOf(event);
  if (!cropper || event.target !== cropper) return;
  const direction = DIRECTIONS[event.key];
  if (event.key === "Escape") giveUp();
  else if (direction) {
    const step = direction.map((each) => each * KEY_STEP);
    show(cropper, changed(read(cropper) ?? [250, 250, 500, 500], step, event.shiftKey));
    clearTimeout(pause);
    pause = setTimeout(search, KEY_PAUSE, cropper);
  } else if (event.key === "Enter" && read(cropper)) search(cropper);
  else if (event.key === "Delete" || event.key === "Backspace") clear(cropper);
  else return;
  event.preventDefault();
});

function changed(box, step, resize) {
  if (!resize) return moved(box, step);
  const [left, top, width, height] = box;
  return [left, top, clamp(width + step[0], SMALLEST, WHOLE - left), clamp(height + step[1], SMALLEST, WHOLE - top)];
}

function clear(cropper) {
  show(cropper, null);
  search(cropper);
}

document.addEventListener("click", (event) => {
  if (event.target.closest("button.whole")) clear(document.getElementById("cropper"));
});
