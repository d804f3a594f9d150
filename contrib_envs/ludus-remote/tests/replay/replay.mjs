// The JavaScript client for test_remote_clients.py: runs commands, one on each line of a file, or plays with a gateway.
// Arguments: path of the commands; or URL, token and number of matches.

import { readFileSync } from "node:fs";
import { LudusClient, SeatClock, Session, bytes, decode, encode } from "../../clients/javascript/ludus_client.js";

const fromHex = (text) => new Uint8Array(Buffer.from(text, "hex"));
const print = (...words) => console.log(words.join(" "));
let session;
let clock;

const commands = {
  decode: (hex) => print("value", Buffer.from(encode(decode(fromHex(hex)))).toString("hex")),
  hello(hex) {
    const { type, protocol, client, resume, ack, ...hello } = decode(fromHex(hex));
    session ??= new Session(hello);
    session.connect();
  },
  gateway(hex) {
    const message = session.receive(fromHex(hex));
    if (message) print("event", message.type, message.match ?? 0);
  },
  game(hex) {
    const { type, match, seq, ack, ...fields } = decode(fromHex(hex));
    if (!session.send(type, match, fields)) print("unsent", type, match);
  },
  reset: () => session.reset().forEach(({ type, match }) => print("event", type, match)),
  clock(delay, maxAge, missing) {
    clock = new SeatClock({ delay: Number(delay), max_age: Number(maxAge), missing }, [0]);
  },
  ask: (tick) => print("dropped", ...clock.ask(Number(tick))),
  receive: (tick, action) => clock.receive(Number(tick), [Number(action)]),
  action: (tick) => print("action", ...clock.action(Number(tick))),
};

function run(line) {
  const [name, ...words] = line.split(" ");
  try {
    commands[name](...words);
  } catch (error) {
    print("error", error.code);
  }
  for (const payload of session?.output.splice(0) ?? []) print("sent", Buffer.from(payload).toString("hex"));
}

/** Six ticks of a game in which the higher number earns the difference, and everyone sees the last numbers. */
async function play(match) {
  const last = [match.seed % 4, 0];
  for (let tick = 0; tick < 6; tick++) {
    const seats = [0, 1].map((seat) => entry(seat, tick, last));
    const actions = await match.observe(tick, seats);
    [0, 1].forEach((seat) => (last[seat] = actions[seat][0]));
  }
  const seats = [0, 1].map((seat) => ({ ...entry(seat, 6, last), acts: false }));
  match.end(6, { outcome: [1, 0], seats, statistics: last.map((number) => ({ last: number })) });
}

function entry(seat, tick, last) {
  const numbers = bytes(new Float32Array([tick, last[seat], last[1 - seat]]));
  return { seat, acts: true, leaves: { numbers }, reward: tick && last[seat] - last[1 - seat] };
}

if (process.argv.length > 3) {
  const [, , url, token, matches] = process.argv;
  const leaves = { numbers: { dtype: "float32", shape: [3], low: 0, high: 6 } };
  const role = { name: "player", teams: [0, 1], leaves, labels: [4], statistics: ["last"] };
  const schema = { roles: [role], turn: "simultaneous", constant_sum: true };
  const hello = { token, game: "numbers", matches: Number(matches), schema };
  print(await new LudusClient({ url, ports: 1, onMatch: play, ...hello }).run());
} else readFileSync(process.argv[2], "utf-8").trim().split("\n").forEach(run);
