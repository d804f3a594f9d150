// Play a match: show its state, and send what the person presses, points to and types.
import { Viewer } from "./viewer.js";

const element = document.getElementById("viewer");
const status = document.getElementById("status");
const legal = document.getElementById("legal");
const textOfMatch = document.getElementById("board-text");
const viewer = new Viewer(element);
const { play, watch, csrf } = element.dataset;
let hasEnded = false;

// --- input: one request at a time, so that they arrive in order

const held = new Set();
let waiting = { pressed: [] };
let place = null;
let isSending = false;

async function send() {
  if (isSending || hasEnded) return;
  isSending = true;
  while (waiting && !hasEnded) {
    const body = JSON.stringify({ ...waiting, held: [...held], place });
    waiting = null;
    try {
      const answer = await fetch(`${play}/input`, { method: "POST", body, headers: { "x-csrf": csrf } });
      if (!answer.ok) status.textContent = await answer.text();
    } catch {
      status.textContent = "the dashboard cannot be reached";
    }
  }
  isSending = false;
}

function enter(values) {
  waiting = { ...waiting, ...values, pressed: [...(waiting?.pressed ?? []), ...(values.pressed ?? [])].slice(-16) };
  send();
}

const keyName = (event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);
const isOther = (event) => event.ctrlKey || event.altKey || event.metaKey || ["Tab", "Escape", "Shift"].includes(event.key);

element.addEventListener("keydown", (event) => {
  if (isOther(event)) return;
  event.preventDefault();
  if (event.repeat) return;
  held.add(keyName(event));
  enter({ pressed: [keyName(event)] });
});
document.addEventListener("keyup", (event) => {
  if (held.delete(keyName(event))) enter({});
});
element.addEventListener("blur", () => {
  held.clear();
  enter({});
});

viewer.canvas.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  viewer.canvas.setPointerCapture(event.pointerId);
  place = viewer.place(event);
  enter({ clicked: place });
});
viewer.canvas.addEventListener("pointermove", (event) => {
  if (!place) return;
  place = viewer.place(event);
  enter({});
});
for (const name of ["pointerup", "pointercancel"]) {
  viewer.canvas.addEventListener(name, () => {
    place = null;
    enter({});
  });
}

document.getElementById("typed").addEventListener("submit", (event) => {
  event.preventDefault();
  const input = event.target.elements.typed;
  if (input.value) enter({ typed: input.value });
  input.value = "";
});
document.getElementById("quit").addEventListener("click", () => enter({ quit: true }));

// --- the state of the match

const PHASES = { waiting: "Press any key or click to start.", playing: "", "your turn": "Your turn." };

function showLegal(names) {
  if (legal.dataset.names === names.join()) return;
  legal.dataset.names = names.join();
  const buttons = names.map((name) => {
    const button = document.createElement("button");
    [button.type, button.textContent, button.disabled] = ["button", name, name === "…"];
    button.addEventListener("click", () => {
      enter({ typed: name });
      element.focus();
    });
    return button;
  });
  legal.replaceChildren(...buttons);
}

function showState(state) {
  if (state.frame) viewer.show(state.frame);
  const phase = PHASES[state.phase] ?? "";
  const isPlaying = element.dataset.clock === undefined ? "The others play." : "Playing.";
  const text = [phase, state.note].filter(Boolean).join(" ") || isPlaying;
  if (status.textContent !== text) status.textContent = text;
  showLegal(state.legal ?? []);
  textOfMatch.hidden = !state.text;
  textOfMatch.querySelector("pre").textContent = state.text ?? "";
  if (state.phase === "ended") end(state);
}

function end(state) {
  hasEnded = true;
  source.close();
  for (const part of [legal, document.getElementById("typed"), document.getElementById("quit")]) part.remove();
  if (!state.match) return;
  const link = document.createElement("a");
  [link.href, link.textContent] = [watch + state.match, `Watch match ${state.match}`];
  status.append(" ", link);
}

const source = new EventSource(`${play}/events`);
source.onmessage = (event) => showState(JSON.parse(event.data));
source.onerror = () => {
  if (!hasEnded) status.textContent = "the connection is lost; trying again …";
};
element.focus();
