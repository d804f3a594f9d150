// Show a recorded match: play, pause and step.
import { Viewer } from "./viewer.js";

const element = document.getElementById("viewer");
const status = document.getElementById("status");
const lines = document.getElementById("lines");
const pause = document.getElementById("pause");
const position = document.getElementById("position");
const viewer = new Viewer(element);
let frames = [];
let timer = null;

function show() {
  const shown = frames[position.valueAsNumber];
  viewer.show(shown.frame);
  lines.textContent = shown.lines.join("\n") || "no decision";
  const text = `tick ${shown.tick} of ${frames.at(-1).tick}`;
  position.setAttribute("aria-valuetext", text);
  status.textContent = text;
}

function stop() {
  clearInterval(timer);
  timer = null;
  pause.textContent = "Play on";
}

function start(frameS) {
  if (position.valueAsNumber === frames.length - 1) position.value = 0;
  pause.textContent = "Pause";
  timer = setInterval(() => {
    if (position.valueAsNumber === frames.length - 1) return stop();
    position.valueAsNumber += 1;
    show();
  }, Math.max(1000 * frameS, 20));
}

async function load() {
  const answer = await fetch(element.dataset.frames);
  const values = answer.ok ? await answer.json() : { problem: "the match cannot be loaded" };
  if (values.problem) {
    status.textContent = values.problem;
    element.hidden = true;
    return;
  }
  frames = values.frames;
  position.max = frames.length - 1;
  document.getElementById("controls").hidden = lines.hidden = false;
  status.setAttribute("role", "none"); // the slider states its tick
  show();
  pause.addEventListener("click", () => (timer ? stop() : start(values.frame_s)));
  position.addEventListener("input", () => {
    stop();
    show();
  });
  start(values.frame_s);
}

load();
