// The keyboard: arrows go from tile to tile, letters do what a tile's tools do.

import { use } from "./tiles.js";
import { turn } from "./panel.js";

const TOOLS = { i: "detail", "+": "more", "=": "more", "-": "less" };
const tiles = () => [...document.querySelectorAll("#view .grid > li")];
const isOpen = (id) => document.getElementById(id)?.open;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key !== "?" && event.target.closest("#cropper")) return; // which moves its rectangle
  if (isOpen("help")) return;
  if (isOpen("panel") ? inPanel(event.key) : onPage(event.key)) event.preventDefault();
});

function inPanel(key) {
  if (key === "ArrowLeft" || key === "ArrowRight") turn(key === "ArrowLeft" ? -1 : 1);
  else return TOOLS[key] !== "detail" && use(TOOLS[key], document.querySelector("#panel [data-id]"));
  return true;
}

function onPage(key) {
  if (key === "?") {
    document.getElementById("help").showModal();
    return true;
  }
  const tile = document.activeElement.closest("#view .grid > li");
  if (TOOLS[key]) return use(TOOLS[key], tile);
  if (!/^(Arrow|Home$|End$)/.test(key)) return false;
  if (!tile && !/^Arrow(Down|Right)$/.test(key)) return false;
  if (!tile && !document.activeElement.matches("body, h1")) return false;
  const next = tile ? neighbor(tile, key) : tiles()[0];
  next?.querySelector("a").focus();
  return Boolean(next);
}

function neighbor(tile, key) {
  const all = tiles();
  const place = all.indexOf(tile);
  switch (key) {
    case "ArrowLeft":
      return all[place - 1];
    case "ArrowRight":
      return all[place + 1];
    case "Home":
      return all[0];
    case "End":
      return all.at(-1);
    default:
      return aboveOrBelow(all, place, key === "ArrowDown" ? 1 : -1);
  }
}

// Of the next row, the tile whose middle is nearest to that of the tile one comes from.
function aboveOrBelow(all, place, step) {
  const { offsetTop: top } = all[place];
  const middle = (tile) => tile.offsetLeft + tile.offsetWidth / 2;
  let best = null;
  let row = null;
  for (let at = place + step; all[at]; at += step) {
    const tile = all[at];
    if (tile.offsetTop === top) continue;
    if (row !== null && tile.offsetTop !== row) break;
    row = tile.offsetTop;
    const distance = Math.abs(middle(tile) - middle(all[place]));
    if (!best || distance < best.distance) best = { tile, distance };
  }
  return best?.tile;
}

// One stop for the Tab key in the whole grid: the tile that one was on.
document.addEventListener("focusin", (event) => {
  const link = event.target.closest("#view .grid > li > a");
  if (!link) return;
  for (const other of document.querySelectorAll('#view .grid > li > a[tabindex="0"]')) other.tabIndex = -1;
  link.tabIndex = 0;
});
