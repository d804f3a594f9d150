/**
 * ludus client for JavaScript: connects a game to the game gateway of ludus (game protocol, version 1).
 *
 * One ES module without dependencies, for browsers (`ws://`, `wss://`) and for Node 18 and newer (`tcp://`). `encode`
 * and `decode` are the MessagePack subset, `Session` is the protocol without sockets, `SeatClock` decides which action
 * is in effect in real-time mode, `LudusClient` connects and reconnects. A lock-step game with 16 matches at once:
 *
 *     import { LudusClient, bytes } from "./ludus_client.js";
 *
 *     const role = { name: "runner", teams: [0, 1], leaves: { place: { dtype: "float32", shape: [2] } }, labels: [3] };
 *     const client = new LudusClient({
 *       url: "tcp://127.0.0.1:7700", token: process.env.TOKEN, game: "race", matches: 16,
 *       schema: { roles: [role], turn: "simultaneous", max_ticks: 600 },
 *       async onMatch(match) {                                  // called with every match that the gateway starts
 *         const race = new Race(match.seed);
 *         while (!race.isOver) {
 *           const seats = race.runners.map(({ reward, place }, seat) => (
 *             { seat, acts: true, reward, leaves: { place: bytes(new Float32Array(place)) } }));
 *           const actions = await match.observe(race.tick, seats);
 *           race.step(actions);                                 // actions[seat] is a list of numbers
 *         }
 *         match.end(race.tick, { outcome: race.outcome });
 *       },
 *     });
 *     console.log(await client.run());                          // why the session ended
 *
 * A real-time game calls `match.actionsAt(tick)` on every tick, and `match.observe` for a seat every `period` ticks;
 * neither waits. It goes on until it calls `match.end`, or until `match.isOver` is true because the match is void.
 */

const NUMBERED = new Set(["match_start", "observation", "action", "seat_end", "match_end", "match_void"]);
const utf8Encoder = new TextEncoder();
const utf8Decoder = new TextDecoder("utf-8", { fatal: true });
const seconds = () => performance.now() / 1000;

/** An error of the protocol; `code` is a code of the message `error`, or "lost" for a connection that ended. */
export class ProtocolError extends Error {
  constructor(code, text) {
    super(`${code}: ${text}`);
    Object.assign(this, { code, text });
  }
}

/** The match ended without a result; thrown by `Match.observe`. */
export class MatchVoid extends Error {}

/** Return the bytes of a typed array, little-endian as on all platforms of browsers and Node. */
export const bytes = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

// The formats of MessagePack behind which there is a number: a length, or the value itself.
const FORMATS = {
  0xc4: ["bytes", "Uint8", 1], 0xc5: ["bytes", "Uint16", 2], 0xc6: ["bytes", "Uint32", 4],
  0xca: ["number", "Float32", 4], 0xcb: ["number", "Float64", 8], 0xcc: ["number", "Uint8", 1],
  0xcd: ["number", "Uint16", 2], 0xce: ["number", "Uint32", 4], 0xcf: ["number", "BigUint64", 8],
  0xd0: ["number", "Int8", 1], 0xd1: ["number", "Int16", 2], 0xd2: ["number", "Int32", 4],
  0xd3: ["number", "BigInt64", 8], 0xd9: ["text", "Uint8", 1], 0xda: ["text", "Uint16", 2], 0xdb: ["text", "Uint32", 4],
  0xdc: ["list", "Uint16", 2], 0xdd: ["list", "Uint32", 4], 0xde: ["map", "Uint16", 2], 0xdf: ["map", "Uint32", 4],
};

for (const format of Object.values(FORMATS)) format.push(`get${format[1]}`, `set${format[1]}`);

// What is being encoded; reused, because games encode thousands of messages per second.
let data = new Uint8Array(1 << 16);
let view = new DataView(data.buffer);
let end = 0;
const encodedKeys = new Map();

/** Return the position of `size` new bytes. */
function reserve(size) {
  end += size;
  if (end > data.length) {
    const grown = new Uint8Array(2 * end);
    grown.set(data);
    [data, view] = [grown, new DataView(grown.buffer)];
  }
  return end - size;
}

function putBytes(bytes) {
  const start = reserve(bytes.length); // which may replace data
  data.set(bytes, start);
}

function putNumber(format, number) {
  const [, , size, , setter] = FORMATS[format];
  const start = reserve(1 + size);
  data[start] = format;
  view[setter](start + 1, number);
}

function putLength(size, fixed, limit, format) {
  if (size >= limit) return putNumber(format, size);
  const start = reserve(1);
  data[start] = fixed | size;
}

function putText(text, encoded = utf8Encoder.encode(text)) {
  putLength(encoded.length, 0xa0, 32, 0xdb);
  putBytes(encoded);
  return encoded;
}

function putValue(item) {
  if (typeof item === "string") putText(item);
  else if (Number.isSafeInteger(item)) {
    if (item >= -32 && item < 128) putLength(item & 0xff, 0, 256);
    else if (item === (item | 0)) putNumber(0xd2, item);
    else putNumber(0xd3, BigInt(item));
  } else if (Number.isFinite(item)) putNumber(0xcb, item);
  else if (item === null || typeof item === "boolean") putLength(item === null ? 0xc0 : 0xc2 + item, 0, 256);
  else if (item instanceof Uint8Array) {
    putNumber(0xc6, item.length);
    putBytes(item);
  } else if (Array.isArray(item)) {
    putLength(item.length, 0x90, 16, 0xdd);
    for (const each of item) putValue(each);
  } else if (typeof item === "object" && !ArrayBuffer.isView(item)) {
    const keys = Object.keys(item);
    putLength(keys.length, 0x80, 16, 0xdf);
    for (const key of keys) {
      const encoded = putText(key, encodedKeys.get(key));
      if (encodedKeys.size < 1024) encodedKeys.set(key, encoded);
      putValue(item[key]);
    }
  } else throw new ProtocolError("value", `cannot send ${String(item)}; expected finite numbers, arrays as bytes`);
}

/** Return the MessagePack bytes of a value. */
export function encode(value) {
  end = 0;
  putValue(value);
  return data.slice(0, end);
}

/** Return the value of MessagePack bytes. */
export function decode(payload) {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
  let position = 0;
  let levels = 16; // of maps and lists that may still be nested
  const check = (isValid, text, code = "frame") => {
    if (!isValid) throw new ProtocolError(code, text);
  };
  const take = (size) => {
    check(position + size <= payload.length, "the payload is incomplete");
    position += size;
    return position - size;
  };
  const read = {
    number: (number) => {
      const isSmall = typeof number !== "bigint" || (number <= 2n ** 53n && number >= -(2n ** 53n));
      check(isSmall && Number.isFinite(Number(number)), `the number ${number} is not finite, or too large`, "value");
      return Number(number);
    },
    bytes: (size) => payload.slice(take(size), position),
    text: (size) => {
      const start = take(size);
      let text = "";
      for (let at = start; at < position && payload[at] < 128; at++) text += String.fromCharCode(payload[at]);
      if (text.length === size) return text; // ASCII, for which this is faster
      try {
        return utf8Decoder.decode(payload.subarray(start, position));
      } catch {
        throw new ProtocolError("frame", "a text is no UTF-8");
      }
    },
    list: (size, readItem = readValue) => {
      check(--levels >= 0, "the payload has more than 16 levels");
      const list = [];
      while (list.length < size) list.push(readItem());
      levels += 1;
      return list;
    },
    map: (size) => {
      const entries = read.list(size, () => [readValue(), readValue()]);
      check(entries.every(([key]) => typeof key === "string"), "a map has a key that is no text");
      return Object.fromEntries(entries);
    },
  };
  function readValue() {
    const format = payload[take(1)];
    if (format < 0x80) return format;
    if (format < 0x90) return read.map(format & 15);
    if (format < 0xa0) return read.list(format & 15);
    if (format < 0xc0) return read.text(format & 31);
    if (format >= 0xe0) return format - 256;
    if (format === 0xc0) return null;
    if (format === 0xc2 || format === 0xc3) return format === 0xc3;
    check(format in FORMATS, `the format 0x${format.toString(16)} is not allowed`);
    const [kind, , size, getter] = FORMATS[format];
    return read[kind](view[getter](take(size)));
  }
  const value = readValue();
  check(position === payload.length, "there are bytes behind the payload");
  return value;
}

/** The protocol of a game session, without sockets. `output` collects payloads to send; a transport empties it. */
export class Session {
  output = [];
  running = new Set(); // numbers of matches

  constructor(hello) {
    this.hello = { type: "hello", protocol: [1, 1], client: "ludus_client.js/1", ...hello };
    this.reset();
  }

  /** Forget the session; return a `match_void` for every match that was running. */
  reset() {
    const lost = [...this.running].map((match) => ({ type: "match_void", match, reason: "the session was lost" }));
    Object.assign(this, { resume: "", received: 0, sent: 0, waiting: [], welcome: null, isOpen: false });
    this.running.clear();
    return lost;
  }

  /** Begin a connection. */
  connect() {
    this.output = [encode({ ...this.hello, resume: this.resume, ack: this.received })];
    this.isOpen = false;
  }

  /** Send a numbered message about a match; return false, and send nothing, if the match is not running. */
  send(type, match, fields) {
    if (!this.running.has(match)) return false;
    if (this.waiting.length >= this.welcome.limits.unacknowledged) {
      throw new ProtocolError("sequence", `${this.waiting.length} messages wait for an acknowledgement`);
    }
    const payload = encode({ type, match, seq: this.sent + 1, ack: this.received, ...fields });
    this.waiting.push({ seq: ++this.sent, payload });
    if (this.isOpen) this.output.push(payload);
    if (type === "match_end" || type === "match_void") this.running.delete(match);
    return true;
  }

  /** Process a payload; return its message if it concerns the game, else null. */
  receive(payload) {
    const message = decode(payload);
    const { type, match = 0, seq = 0, ack = 0 } = message ?? {};
    if (type === "error") throw new ProtocolError(message.code, message.text);
    if (type === "bye") throw new ProtocolError("bye", message.reason);
    if (!this.isOpen && type !== "welcome") throw new ProtocolError("order", `expected welcome, got ${type}`);
    while (this.waiting.length && this.waiting[0].seq <= ack) this.waiting.shift();
    if (NUMBERED.has(type)) {
      if (seq <= this.received) return null; // a duplicate
      if (seq > this.received + 1) throw new ProtocolError("sequence", `expected ${this.received + 1}, got ${seq}`);
      this.received = seq;
    }
    if (type === "welcome") {
      Object.assign(this, { welcome: message, resume: message.resume, isOpen: true });
      this.output.push(...this.waiting.map((sent) => sent.payload));
    } else if (type === "ping") {
      this.output.push(encode({ type: "pong", ack: this.received, time: message.time, clock: seconds() }));
    } else if (type === "match_start") this.running.add(match);
    else if (type === "match_void") return this.running.delete(match) ? message : null;
    else if (type === "action") return this.running.has(match) ? message : null;
    return message;
  }
}

/** The actions of a seat in real-time mode: which one is in effect on a tick, and which ones were dropped. */
export class SeatClock {
  asked = []; // observations whose actions may still take effect
  dropped = [];

  constructor(timing, noOp) {
    Object.assign(this, { timing, noOp, current: noOp });
  }

  /** Note that an observation was sent; return its key `dropped`. */
  ask(tick) {
    this.asked.push({ tick, action: null });
    return this.dropped.splice(0);
  }

  /** Keep the action for the observation of a tick. */
  receive(tick, action) {
    for (const asked of this.asked) if (asked.tick === tick) asked.action = action;
  }

  /** Return the action in effect on a tick. Call it once for every tick, in order. */
  action(tick) {
    const { delay, max_age: maxAge, missing } = this.timing;
    const isDue = (asked) => asked.tick + delay <= tick;
    const newest = this.asked.findLast((asked) => isDue(asked) && asked.action);
    const waiting = this.asked.filter((asked) => asked.tick > (newest?.tick ?? -1) && tick <= asked.tick + maxAge);
    const gone = this.asked.filter((asked) => asked !== newest && !waiting.includes(asked));
    this.dropped.push(...gone.map((asked) => asked.tick));
    this.asked = waiting;
    const isMissing = waiting.some((asked) => isDue(asked) && !asked.action);
    this.current = isMissing && missing === "no-op" ? this.noOp : newest?.action ?? this.current;
    return this.current;
  }
}

/** A running match; `message` is its `match_start`, `builtin[seat]` a bot of the game, or empty. See the top. */
export class Match {
  isOver = false;

  constructor(client, message) {
    const { hello, welcome } = client.session;
    const clocks = welcome.timing.map((timing, seat) => {
      const role = hello.schema.roles.find(({ name }) => name === welcome.seats[seat].role);
      return new SeatClock(timing, role.no_op ?? [...(role.labels ?? []), ...(role.reals ?? [])].fill(0));
    });
    const { seed, builtin = [] } = message;
    Object.assign(this, { client, message, seed, builtin, clocks });
  }

  /** Send what seats observe. In lock-step mode, return a promise of the actions by seat; it may throw MatchVoid. */
  observe(tick, seats) {
    const isRealTime = this.clocks.length > 0;
    for (const entry of isRealTime ? seats.filter(({ acts }) => acts) : []) {
      entry.dropped = this.clocks[entry.seat].ask(tick);
    }
    const isSent = this.send("observation", { tick, seats });
    return isRealTime ? null : new Promise((resolve, reject) => {
      Object.assign(this, { resolve, reject });
      if (!isSent) reject(new MatchVoid("the match is void"));
    });
  }

  /** Return the actions in effect on a tick by seat, in real-time mode. Call it once for every tick, in order. */
  actionsAt(tick) {
    return this.clocks.map((clock) => clock.action(tick));
  }

  /** Send the result; `fields` has `outcome`, and may have `ending`, `seats` and `statistics`. */
  end(tick, fields) {
    this.send("match_end", { tick, ending: "terminated", ...fields });
  }

  /** Send a message of this match, such as `seat_end` or `match_void`; return whether the match is running. */
  send(type, fields) {
    this.isOver ||= type === "match_end" || type === "match_void";
    return this.client.send(type, this.message.match, fields);
  }

  receive({ type, tick, actions = [], reason }) {
    for (const { seat, action } of actions) this.clocks[seat]?.receive(tick, action);
    this.isOver = type === "match_void";
    if (this.isOver) this.reject?.(new MatchVoid(`the match is void: ${reason}`));
    else this.resolve?.(Object.fromEntries(actions.map(({ seat, action }) => [seat, action])));
  }
}

/** Open a connection; call `opened` with functions that send payloads and close it, `received` and `closed`. */
async function open(url, opened, received, closed) {
  if (url.protocol.startsWith("ws")) {
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    const send = (payloads) => payloads.forEach((payload) => socket.send(payload));
    socket.onopen = () => opened(send, () => socket.close());
    socket.onmessage = ({ data }) => received(new Uint8Array(data));
    socket.onclose = closed;
    socket.onerror = closed; // Node reports a refused connection in this way only
    return;
  }
  const { connect } = await import("node:net");
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
  const frame = (payload) => [Uint8Array.from([24, 16, 8, 0], (shift) => payload.length >>> shift), payload];
  let buffer = Buffer.alloc(0);
  socket.on("data", (data) => {
    buffer = Buffer.concat([buffer, data]);
    for (let size; buffer.length >= 4 && buffer.length >= 4 + (size = buffer.readUInt32BE()); ) {
      received(new Uint8Array(buffer.buffer, buffer.byteOffset + 4, size));
      buffer = buffer.subarray(4 + size);
    }
  });
  socket.on("error", () => {}); // "close" follows
  socket.setTimeout(60_000, () => socket.destroy()); // the gateway sends pings
  socket.on("close", closed);
  const send = (payloads) => socket.write(Buffer.concat(payloads.flatMap(frame)));
  socket.on("connect", () => opened(send, () => socket.destroySoon()));
}

/** Connects a game to the gateway; see the example at the top. */
export class LudusClient {
  matches = new Map();

  /**
   * `url`: with the first port; `ports`: number of ports to try, 1 for a game that ludus starts; `retry_s`: seconds
   * without a gateway after which `run` fails; `onMatch`: called with every match; the others: keys of the hello.
   */
  constructor({ url, ports = 32, retry_s = 60, onMatch, ...hello }) {
    Object.assign(this, { url, ports, retry_s, onMatch, session: new Session(hello) });
  }

  /** Play until the gateway, or `close`, ends the session; return the reason. */
  async run() {
    const url = new URL(this.url);
    const first = Number(url.port);
    this.contact_s = seconds();
    for (let offset = 0; ; ) {
      url.port = first + offset;
      const error = await new Promise((resolve) => this.connect(url, resolve));
      const { resume, welcome } = this.session;
      const silent_s = seconds() - this.contact_s;
      if (error.code === "bye") return error.text;
      if (!["lost", "full", "resume"].includes(error.code) || silent_s > this.retry_s) throw error;
      const isGone = error.code !== "lost" || silent_s > welcome?.limits.resume_s;
      if (isGone) this.session.reset().forEach((message) => this.dispatch(message));
      if (!resume) offset = (offset + 1) % this.ports;
      if (resume || offset === 0) await new Promise((resolve) => setTimeout(resolve, resume ? 100 : 1000));
    }
  }

  /** Connect; call `onEnd` with an error when the connection ends. */
  connect(url, onEnd) {
    const opened = (sendPayloads, closeSocket) => {
      Object.assign(this, { sendPayloads, closeSocket });
      this.session.connect();
      this.flush();
    };
    const received = (payload) => {
      try {
        this.contact_s = seconds();
        const message = this.session.receive(payload);
        if (message) this.dispatch(message);
        this.flushSoon();
      } catch (error) {
        this.end(error);
      }
    };
    this.end = (error) => {
      onEnd(error); // only the first call has an effect
      this.closeSocket?.();
      Object.assign(this, { sendPayloads: null, closeSocket: null });
    };
    open(url, opened, received, () => onEnd(new ProtocolError("lost", `no connection to ${url}`))).catch(onEnd);
  }

  dispatch(message) {
    const { type, match } = message;
    if (type === "match_start") {
      this.matches.set(match, new Match(this, message));
      this.play(this.matches.get(match));
    } else this.matches.get(match)?.receive(message);
    if (type === "match_void") this.matches.delete(match);
  }

  async play(match) {
    try {
      await this.onMatch(match);
    } catch (error) {
      if (!(error instanceof MatchVoid)) this.close(String(error), error);
    }
  }

  /** Send a message of a match, together with all others that this turn of the event loop causes. */
  send(type, match, fields) {
    if (type === "match_end" || type === "match_void") this.matches.delete(match);
    this.flushSoon();
    return this.session.send(type, match, fields);
  }

  /** End the session; `run` returns the reason, or throws the error. */
  close(reason = "the game ended", error = new ProtocolError("bye", reason)) {
    this.session.output.push(encode({ type: "bye", reason }));
    this.flush();
    this.end(error);
  }

  flushSoon() {
    this.timer ??= (globalThis.setImmediate ?? queueMicrotask)(() => this.flush()) ?? 1;
  }

  flush() {
    this.timer = null;
    const payloads = this.session.output.splice(0);
    if (payloads.length) this.sendPayloads?.(payloads);
  }
}
