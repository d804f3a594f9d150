/** Plays matches of the duel in Node, in lock-step with a gateway: node headless.js PORT TOKEN MATCHES [HOST]. */

import { LudusClient } from "../../contrib_envs/ludus-remote/clients/javascript/ludus_client.js";
import { Game, PERIOD, SCHEMA, STAY, botAction } from "./game.js";

const [port, token, matches = "1", host = "127.0.0.1"] = process.argv.slice(2);
if (!token) throw new Error("expected arguments: PORT TOKEN [MATCHES] [HOST]");

/** Play a match; policies, or the bot where `match.builtin` names it, decide every PERIOD ticks. */
async function onMatch(match) {
  if (client.session.welcome.mode !== "lock-step") throw new Error("expected lock-step mode; real time needs the page");
  const game = new Game(match.seed);
  const choose = { bot: botAction, person: () => [STAY, 0] }; // there is no keyboard
  while (!game.isOver) {
    const decided = await match.observe(game.tick, [0, 1].map((seat) => game.entry(seat, !match.builtin[seat])));
    const actions = [0, 1].map((seat) => decided[seat] ?? choose[match.builtin[seat]](game, seat));
    for (let tick = 0; tick < PERIOD && !game.isOver; tick++) game.step(actions);
  }
  match.end(game.tick, game.result());
}

const url = `tcp://${host}:${port}`;
const client = new LudusClient({ url, token, game: "arena-duel", matches: Number(matches), schema: SCHEMA, onMatch });
console.log(await client.run());
