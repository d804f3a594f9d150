/** The rules of an arena duel: a function of seed and actions, in ticks of 1/30 s, for browsers and Node. */

export const TICK_S = 1 / 30;
export const HALF_WIDTH = 8; // of the square arena; lengths are meters
export const RADIUS = 0.5; // of a fighter
export const SHOT_RADIUS = 0.2;
export const HEALTH = 3;
export const PERIOD = 3; // ticks between two decisions in lock-step mode
const SPEED = 6 * TICK_S; // meters per tick
const SHOT_SPEED = 14 * TICK_S;
const RELOAD_TICKS = 15;
const MOST_TICKS = 900;
const MOST_SHOTS = 4; // of a fighter in the arena: a shot crosses the longest diagonal before the fifth
export const STAY = 8; // the direction of an action that does not move

const DIRECTIONS = Array.from({ length: 8 }, (_, index) => {
  const angle = (index * Math.PI) / 4; // from the x axis, clockwise on a screen
  return { x: Math.round(Math.cos(angle)) && Math.cos(angle), y: Math.round(Math.sin(angle)) && Math.sin(angle) };
});

const NUM_FEATURES = 7 + 8 + 1 + 2 * MOST_SHOTS * 5;

/** The schema of the game protocol. An action is a direction to move in, or 8 to stay, and whether to fire. */
export const SCHEMA = {
  roles: [
    {
      name: "fighter",
      teams: [0, 1],
      leaves: { features: { dtype: "float32", shape: [NUM_FEATURES], low: -2, high: 2 } },
      labels: [9, 2],
      mask: true,
      reward_parts: ["hit", "win"],
      statistics: ["hits", "shots"],
      builtin: ["bot", "person"],
      no_op: [STAY, 0],
    },
  ],
  turn: "simultaneous",
  tick_s: TICK_S,
  max_ticks: MOST_TICKS,
  zero_sum: true,
  constant_sum: true,
  symmetric: true,
  outcome_rule: "three hits win; after 30 s the fighter with more health wins",
};

/** Return a generator of numbers in [0, 1): xorshift with 32 bits. */
function makeRandom(seed) {
  let state = (seed % 4294967291) + 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** One match. Seat 0 starts on the left. */
export class Game {
  constructor(seed) {
    this.random = makeRandom(seed);
    for (let skipped = 0; skipped < 8; skipped++) this.random(); // similar seeds are similar in their first numbers
    this.tick = 0;
    this.shots = [];
    this.fighters = [0, 1].map((seat) => ({
      x: (seat ? 1 : -1) * (4 + 2 * this.random()),
      y: 8 * this.random() - 4,
      facing: seat ? 4 : 0,
      moving: STAY,
      reload: 0,
      health: HEALTH,
      shots: 0,
      reward: { hit: 0, win: 0 },
    }));
  }

  get isOver() {
    return this.tick >= MOST_TICKS || this.fighters.some((fighter) => fighter.health <= 0);
  }

  /** Return the points of both teams. */
  get outcome() {
    const points = 0.5 + 0.5 * Math.sign(this.fighters[0].health - this.fighters[1].health);
    return [points, 1 - points];
  }

  /** Advance by a tick; `actions` are [direction, fire] by seat, as a fighter of seat 0 sees the arena. */
  step(actions) {
    this.fighters.forEach((fighter, seat) => this.act(fighter, seat, actions[seat]));
    for (const shot of this.shots) {
      shot.x += SHOT_SPEED * DIRECTIONS[shot.direction].x;
      shot.y += SHOT_SPEED * DIRECTIONS[shot.direction].y;
      const target = this.fighters[1 - shot.seat];
      shot.isHit = Math.hypot(shot.x - target.x, shot.y - target.y) < RADIUS + SHOT_RADIUS;
    }
    for (const { seat } of this.shots.filter((shot) => shot.isHit)) {
      this.fighters[1 - seat].health -= 1;
      this.reward(seat, "hit", 0.25);
    }
    const isInside = ({ x, y }) => Math.max(Math.abs(x), Math.abs(y)) < HALF_WIDTH;
    this.shots = this.shots.filter((shot) => !shot.isHit && isInside(shot));
    this.tick += 1;
    if (this.isOver) this.reward(0, "win", 2 * this.outcome[0] - 1);
  }

  act(fighter, seat, [choice, fire]) {
    const limit = HALF_WIDTH - RADIUS;
    fighter.moving = choice === STAY ? STAY : turn(choice, seat);
    if (fighter.moving !== STAY) {
      fighter.facing = fighter.moving;
      fighter.x = Math.min(limit, Math.max(-limit, fighter.x + SPEED * DIRECTIONS[fighter.facing].x));
      fighter.y = Math.min(limit, Math.max(-limit, fighter.y + SPEED * DIRECTIONS[fighter.facing].y));
    }
    fighter.reload = Math.max(0, fighter.reload - 1);
    if (fire && fighter.reload === 0) {
      fighter.reload = RELOAD_TICKS;
      fighter.shots += 1;
      this.shots.push({ seat, x: fighter.x, y: fighter.y, direction: fighter.facing, isHit: false });
    }
  }

  reward(seat, part, amount) {
    this.fighters[seat].reward[part] += amount;
    this.fighters[1 - seat].reward[part] -= amount;
  }

  /** Return the features of a seat. Seat 1 sees the arena turned by half, so that both see themselves on the left. */
  features(seat) {
    const sign = seat ? -1 : 1;
    const own = this.fighters[seat];
    const other = this.fighters[1 - seat];
    const unit = (direction) => turned(DIRECTIONS[direction] ?? { x: 0, y: 0 }, 1);
    const turned = ({ x, y }, scale) => [(sign * x) / scale, (sign * y) / scale];
    const place = (target) => turned(target, HALF_WIDTH);
    const offset = (target) => turned({ x: target.x - own.x, y: target.y - own.y }, HALF_WIDTH);
    const values = [...place(own), ...unit(own.facing), own.reload / RELOAD_TICKS, own.health / HEALTH];
    values.push(1 - this.tick / MOST_TICKS, ...offset(other), ...unit(other.facing), ...unit(other.moving));
    values.push(other.reload / RELOAD_TICKS, other.health / HEALTH, Number(own.moving !== STAY));
    for (const owner of [1 - seat, seat]) {
      const shots = this.shots.filter((shot) => shot.seat === owner);
      for (let index = 0; index < MOST_SHOTS; index++) {
        const shot = shots[index];
        values.push(...(shot ? [1, ...offset(shot), ...unit(shot.direction)] : [0, 0, 0, 0, 0]));
      }
    }
    return new Float32Array(values);
  }

  /** Return the entry of a seat in a message of the game protocol, with what it earned since the last one. */
  entry(seat, acts) {
    const { reward, reload } = this.fighters[seat];
    const features = new Uint8Array(this.features(seat).buffer);
    this.fighters[seat].reward = { hit: 0, win: 0 };
    const mask = new Uint8Array(11).fill(1);
    mask[10] = Number(reload <= 1); // reloaded by the next tick
    return { seat, acts, leaves: { features }, ...(acts && { mask }), reward: reward.hit + reward.win, parts: reward };
  }

  /** Return the fields of `match_end`. */
  result() {
    const statistics = this.fighters.map((fighter, seat) => (
      { hits: HEALTH - this.fighters[1 - seat].health, shots: fighter.shots }));
    return { outcome: this.outcome, seats: [0, 1].map((seat) => this.entry(seat, false)), statistics };
  }
}

/** Return a direction as seen by seat 0, or back. */
function turn(direction, seat) {
  return seat ? (direction + 4) % 8 : direction;
}

/**
 * Return the action of the scripted bot: dodge shots, go where the opponent is in one of the eight directions, fire. In
 * a quarter of its decisions it wanders, so that two bots do not mirror each other.
 */
export function botAction(game, seat) {
  const own = game.fighters[seat];
  const other = game.fighters[1 - seat];
  const [dx, dy] = [other.x - own.x, other.y - own.y];
  const nearest = Math.round(Math.atan2(dy, dx) / (Math.PI / 4)) & 7;
  const { x, y } = DIRECTIONS[nearest];
  const side = x * dy - y * dx; // meters from the line of fire to the opponent
  const isAligned = Math.abs(side) < RADIUS;
  if (game.random() < 0.25) return [Math.floor(8 * game.random()), 0];
  const threat = game.shots.find((shot) => shot.seat !== seat && isThreat(shot, own));
  let direction = isAligned ? nearest : (nearest + (side > 0 ? 2 : 6)) & 7;
  if (threat) {
    const across = DIRECTIONS[threat.direction];
    const passes = across.x * (own.y - threat.y) - across.y * (own.x - threat.x);
    direction = (threat.direction + (passes > 0 ? 2 : 6)) & 7;
  } else if (isAligned && own.facing === nearest && Math.hypot(dx, dy) < 4) direction = STAY;
  const fire = isAligned && !threat && own.reload <= 1;
  return [direction === STAY ? STAY : turn(direction, seat), Number(fire)];
}

/** Return whether a shot will pass near a fighter soon. */
function isThreat(shot, fighter) {
  const { x, y } = DIRECTIONS[shot.direction];
  const [dx, dy] = [fighter.x - shot.x, fighter.y - shot.y];
  const ahead = x * dx + y * dy;
  return ahead > 0 && ahead < 6 && Math.abs(x * dy - y * dx) < RADIUS + SHOT_RADIUS + 0.1;
}
