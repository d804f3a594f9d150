/** Plays the duel in a page, in real time: a person by keyboard, against a policy that a gateway serves. */

import { LudusClient } from "../../contrib_envs/ludus-remote/clients/javascript/ludus_client.js";
import { Game, HALF_WIDTH, HEALTH, RADIUS, SCHEMA, SHOT_RADIUS, STAY, TICK_S, botAction } from "./game.js";

const KEYS = {
  ArrowRight: "right", ArrowDown: "down", ArrowLeft: "left", ArrowUp: "up", KeyD: "right", KeyS: "down", KeyA: "left",
  KeyW: "up", Space: "fire",
};
// Direction of each pair of x and y in -1, 0, 1, row by row; 0 is right, and they go on clockwise.
const CHOICES = [5, 6, 7, 4, STAY, 0, 3, 2, 1];
const COLORS = ["#5aa9e6", "#e6675a"];

const held = new Set();
const score = { person: 0, policy: 0, draws: 0 };
const context = document.getElementById("arena").getContext("2d");
const show = (text) => { document.getElementById("status").textContent = text; };

for (const [type, change] of [["keydown", "add"], ["keyup", "delete"]]) {
  addEventListener(type, (event) => {
    if (!(event.code in KEYS)) return;
    held[change](KEYS[event.code]);
    event.preventDefault();
  });
}

/** Return the action of the keys that are held, as seat 0 sees the arena. */
function personAction(_, seat) {
  const x = held.has("right") - held.has("left");
  const y = held.has("down") - held.has("up");
  const choice = CHOICES[3 * (y + 1) + x + 1];
  return [choice !== STAY && seat ? (choice + 4) % 8 : choice, Number(held.has("fire"))];
}

const CHOOSE = { bot: botAction, person: personAction };

/** Play a match in real time; return when it ends. */
async function onMatch(match) {
  if (client.session.welcome.mode !== "real-time") throw new Error("expected real-time mode");
  const game = new Game(match.seed);
  const { timing } = client.session.welcome;
  const start = performance.now();
  while (!match.isOver) {
    const deciding = [0, 1].filter((seat) => !match.builtin[seat] && game.tick % timing[seat].period === 0);
    if (deciding.length) match.observe(game.tick, deciding.map((seat) => game.entry(seat, true)));
    await untilTick(game.tick + 1, start);
    const decided = match.actionsAt(game.tick);
    game.step(decided.map((action, seat) => CHOOSE[match.builtin[seat]]?.(game, seat) ?? action));
    draw(game);
    if (game.isOver && !match.isOver) match.end(game.tick, game.result());
  }
  count(game, match.builtin);
}

/** Wait until a tick begins. Pages in the background have slow timers: the game then catches up. */
function untilTick(tick, start) {
  const wait_ms = start + 1000 * tick * TICK_S - performance.now();
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, wait_ms)));
}

function count(game, builtin) {
  const seat = builtin.indexOf("person");
  const points = game.outcome[seat === -1 ? 0 : seat];
  score[points === 1 ? "person" : points === 0 ? "policy" : "draws"] += 1;
  show(`you ${score.person}, policy ${score.policy}, draws ${score.draws}`);
}

function draw(game) {
  const { width } = context.canvas;
  const scale = width / (2 * HALF_WIDTH);
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, width);
  context.setTransform(scale, 0, 0, scale, width / 2, width / 2);
  game.fighters.forEach((fighter, seat) => {
    disc(fighter, RADIUS, COLORS[seat]);
    const angle = (fighter.facing * Math.PI) / 4;
    const muzzle = { x: fighter.x + 0.5 * Math.cos(angle), y: fighter.y + 0.5 * Math.sin(angle) };
    disc(muzzle, 0.15, "#ffffff");
    context.fillStyle = COLORS[seat];
    context.fillRect(fighter.x - RADIUS, fighter.y - 0.8, (2 * RADIUS * Math.max(0, fighter.health)) / HEALTH, 0.15);
  });
  for (const shot of game.shots) disc(shot, SHOT_RADIUS, COLORS[shot.seat]);
}

function disc({ x, y }, radius, color) {
  context.fillStyle = color;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

const options = new URLSearchParams(location.search);
const url = options.get("url") ?? "ws://127.0.0.1:7700/";
const token = options.get("token") ?? "";
const policies = (options.get("policies") ?? "person,").split(","); // of both seats; empty: any that is served
const hello = { token, game: "arena-duel", build: "browser", schema: SCHEMA, policies };
const client = new LudusClient({ url, ports: 1, onMatch, ...hello }); // browsers delay connections after refused ones
client.run().then((reason) => show(`the session ended: ${reason}`), (error) => show(error.message));
