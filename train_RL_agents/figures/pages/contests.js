// Contests with the policy: a person steers one vessel; in a second session from the same state the policy does.
// When a vessel has arrived (control steps), and whether it has collided.
function outcomeOf(session, vessel) {
  const first = (flag) => session.frames.findIndex(({ state }) => state.vessels[vessel]?.[flag]);
  const arrived = first("arrived");
  return { arrived: arrived < 0 ? Infinity : arrived, collided: first("collided") >= 0 };
}

// 1 if the first has won, -1 if the second has, 0 for a tie: to arrive is better than not, sooner
// better than later, and of two that do not arrive, one that has not collided is better.
export function compare(own, other) {
  if (own.arrived !== other.arrived) return own.arrived < other.arrived ? 1 : -1;
  return own.arrived === Infinity ? Number(other.collided) - Number(own.collided) : 0;
}

// A sentence about the outcomes of a round, given the length of a control step (s).
export function describe({ own, other, result }, seconds) {
  const how = ({ arrived, collided }) => (collided ? "collided"
    : arrived === Infinity ? "ran out of time" : `arrived after ${(arrived * seconds).toFixed(1)} s`);
  const verdict = ["The policy wins", "A tie", "You win"][result + 1];
  return `${verdict}: you ${how(own)}, the policy ${how(other)}.`;
}

const hasEnded = (session, vessel) => !session.now().state.vessels[vessel].active || session.isOver();

// session: whose helm is taken; rival: another one with the same scenarios.
export function make(session, rival) {
  const contest = { score: { won: 0, lost: 0, tied: 0 }, vessel: null, last: null, rival };

  // A round with a vessel, from the first frame on.
  function begin(vessel) {
    session.seek(0);
    session.helm = null;
    rival.follow(session.link());
    rival.shield = session.shield;
    session.helm = vessel;
    session.choose(vessel);
    contest.vessel = session.helm;
    contest.last = null;
  }

  // After a step of the session; returns whether the round has ended with it.
  function advance() {
    if (contest.vessel === null) return false;
    rival.advance();
    if (!hasEnded(session, contest.vessel)) return false;
    while (!hasEnded(rival, contest.vessel) && rival.advance());
    const own = outcomeOf(session, contest.vessel), other = outcomeOf(rival, contest.vessel);
    const result = compare(own, other);
    contest.score[["lost", "tied", "won"][result + 1]] += 1;
    contest.last = { own, other, result, vessel: contest.vessel };
    contest.vessel = null;
    return true;
  }

  // A round in which the session was changed or the helm was left does not count.
  function cancel() {
    const there = contest.vessel !== null;
    contest.vessel = null;
    return there;
  }

  return Object.assign(contest, { begin, advance, cancel });
}
