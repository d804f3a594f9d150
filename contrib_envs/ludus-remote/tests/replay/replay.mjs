// Runs the commands of test_remote_clients.py, one on each line of a file, with the JavaScript client.

import { readFileSync } from "node:fs";
import { SeatClock, Session, decode, encode } from "../../clients/javascript/ludus_client.js";

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

for (const line of readFileSync(process.argv[2], "utf-8").trim().split("\n")) {
  const [name, ...words] = line.split(" ");
  try {
    commands[name](...words);
  } catch (error) {
    print("error", error.code);
  }
  for (const payload of session?.output.splice(0) ?? []) print("sent", Buffer.from(payload).toString("hex"));
}
