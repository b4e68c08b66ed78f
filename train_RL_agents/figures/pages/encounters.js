// Encounters of every vessel with every other (marinenav_env/rules/encounters.py), and what a vessel knows of them
// (sensing/duties.py). They are a list with what is known of each, by the vessel (own) and the one that it meets (other).
import * as dynamics from "./dynamics.js";
import * as shores from "./shores.js";

export const PHASES = ["none", "candidate", "confirmed", "past and clear", "fleeting"];
export const ROLES = ["none", "head-on", "give-way", "stand-on", "overtaking", "overtaken"];
const KEEPS_CLEAR = ["head-on", "give-way", "overtaking"], CROSSING = ["give-way", "stand-on"];
const MIN_RELATIVE_SPEED = 1e-6, HELD = 0, FREE = 1, RELEASED = 2;

const isOpen = ({ phase }) => phase === "candidate" || phase === "confirmed";
const bearingTo = (direction, { theta }) => dynamics.wrapToPi(direction - theta);
const speedOf = ({ gx, gy }) => Math.sqrt(gx * gx + gy * gy);

// How two vessels meet.
function meet(k, own, other, land) {
  const rules = k.colregs, px = other.x - own.x, py = other.y - own.y, wx = other.gx - own.gx, wy = other.gy - own.gy;
  const pace = Math.max(Math.sqrt(wx * wx + wy * wy), MIN_RELATIVE_SPEED), direction = Math.atan2(py, px);
  const tcpa = pace > MIN_RELATIVE_SPEED ? -(px * wx + py * wy) / (pace * pace) : 0;
  const { hull, sensor } = k.of(own.kind), { hull: theirs } = k.of(other.kind);
  const distance = Math.sqrt(px * px + py * py), contact = hull.radius + theirs.radius;
  const isClose = Math.abs((py * wx - px * wy) / pace) < rules.domain, touches = distance <= contact;
  const hiding = sensor.sees_through_land || !land.length ? [] : shores.nearest(own.x, own.y, land);
  const isHidden = shores.crossed(own.x, own.y, other.x, other.y, hiding);
  const visible = distance <= sensor.range + theirs.detect_radius && !isHidden;
  return {
    distance, contact, tcpa, isClose, touches, visible, bearing: bearingTo(direction, own),
    aspect: bearingTo(direction + Math.PI, other), turn: dynamics.wrapToPi(other.theta - own.theta),
    risk: touches || (visible && tcpa > 0 && tcpa <= rules.horizon && isClose),
  };
}

function roleOf({ bearing, aspect, turn }, rules) {
  if (Math.abs(aspect) > rules.stern_bearing && Math.abs(bearing) <= rules.overtaking_bearing) return "overtaking";
  if (Math.abs(bearing) > rules.stern_bearing && Math.abs(aspect) <= rules.overtaking_bearing) return "overtaken";
  if (Math.abs(turn) > rules.head_on_courses || (bearing <= 0 && aspect <= 0)) return "head-on";
  return bearing <= 0 ? "stand-on" : "give-way";
}

// The encounter of a pair after a step, as far as it follows from the motion; null if there is none.
function moved(known, met, own, rules) {
  const begins = !known;
  if (begins && !met.risk) return null;
  const now = known ? { ...known, age: known.age + 1 } : {
    phase: "candidate", role: roleOf(met, rules), heading: own.theta, speed: speedOf(own), nearest: met.distance,
    age: 0, opening: 0, late: 0, acted: false, mayAct: HELD,
  };
  now.nearest = Math.min(now.nearest, met.distance);
  if (!begins && (met.distance < rules.stand_on_until || !met.isClose)) now.mayAct = Math.max(now.mayAct, FREE);
  return now;
}

// Note manoeuvres, and what a step confirms and ends.
function settle(now, met, own, rules, seconds) {
  const steps = (time) => Math.round(time / seconds), keepsClear = KEEPS_CLEAR.includes(now.role);
  const turns = Math.abs(dynamics.wrapToPi(own.theta - now.heading)) >= rules.substantial_turn;
  const slows = speedOf(own) / Math.max(now.speed, 1e-6) < 1 - rules.substantial_slowing;
  now.acted ||= met.distance <= now.nearest && (turns || slows);
  now.opening = met.tcpa <= 0 && met.distance > now.nearest ? now.opening + 1 : 0;
  if (now.phase === "confirmed") {
    const passed = CROSSING.includes(now.role) ||
      Math.abs(now.role === "overtaken" ? met.aspect : met.bearing) > 0.5 * Math.PI;
    const clear = !met.visible || (passed && met.distance >= rules.clear_distance);
    if (clear && now.opening >= steps(rules.clear_time)) now.phase = "past and clear";
    return;
  }
  const urgent = met.touches || met.tcpa <= rules.urgent_time || met.distance < rules.urgent_distance;
  if (met.risk ? urgent || now.age >= steps(rules.confirm) : keepsClear && now.acted) {
    const late = Math.min(0.5 * (met.distance + met.contact), rules.stand_on_until);
    Object.assign(now, { phase: "confirmed", age: 0, late });
  } else if (!met.risk) now.phase = "fleeting";
}

// The encounters after a step, from those before it and the vessels after it.
export function follow(k, before, vessels, land = []) {
  const seconds = k.dt * k.substeps, rules = k.colregs, there = vessels.map(({ present }) => present);
  return vessels.flatMap((own, i) => {
    const pairs = vessels.flatMap((other, j) => {
      if (i === j || !there[i] || !there[j]) return [];
      const known = before.find((each) => each.own === i && each.other === j && isOpen(each));
      const met = meet(k, own, other, land), now = moved(known, met, own, rules);
      return now ? [{ met, now: Object.assign(now, { own: i, other: j }) }] : [];
    });
    const isFree = pairs.some(({ now }) => KEEPS_CLEAR.includes(now.role));
    return pairs.map(({ met, now }) => {
      if (isFree) now.mayAct = RELEASED;
      settle(now, met, own, rules, seconds);
      return now;
    });
  });
}

// The entry duties of vessel i, a row for each of the slots, with the numbers of the objects in them.
export function duties(k, encounters, vessels, i, seen) {
  const width = ROLES.length + 6, rows = new Float64Array(width * k.slots), own = vessels[i], rules = k.colregs;
  for (const now of encounters.filter((each) => each.own === i && isOpen(each))) {
    const slot = seen.indexOf(now.other), other = vessels[now.other], confirmed = now.phase === "confirmed";
    if (slot < 0) continue;
    const distance = Math.sqrt((other.x - own.x) ** 2 + (other.y - own.y) ** 2);
    rows.set([
      ...ROLES.slice(1).map((role) => Number(role === now.role)), Number(confirmed),
      dynamics.limit(now.age * k.dt * k.substeps / rules.horizon),
      dynamics.limit(dynamics.wrapToPi(own.theta - now.heading) / k.duty_scales.turn),
      dynamics.limit(speedOf(own) / Math.max(now.speed, 1e-6) - 1),
      dynamics.limit((distance - (confirmed ? now.late : 0)) / k.duty_scales.gap),
      Number(now.acted), Number(now.mayAct !== HELD),
    ], width * slot);
  }
  return rows;
}
