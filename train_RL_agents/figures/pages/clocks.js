// The time of a page that plays control steps, one after another, and draws whenever what it shows is stale.
import { byId, write } from "./elements.js";

// Largest number of steps between two pictures.
const MAX_STEPS_PER_PICTURE = 20, SPEEDS = [1, 2, 5, 10];

// speed: times real time at first; seconds(): length of a control step; step(): to the next one; draw(): a picture. Of
// the step that is being played, a share has passed; while the clock is held it stands still.
export function make({ speed, seconds, step, draw }) {
  const clock = { playing: false, held: false, share: 0, last: 0, stale: true };

  function start() {
    Object.assign(clock, { playing: true, share: 0, last: performance.now() });
    write(byId("play"), "Pause");
  }

  function stop() {
    Object.assign(clock, { playing: false, share: 0 });
    write(byId("play"), "Play");
  }

  function tick(now) {
    if (clock.playing && !clock.held) {
      clock.share += Math.max(0, now - clock.last) / 1000 * Number(byId("speed").value) / seconds();
      for (let count = 0; clock.share >= 1 && clock.playing; count++) {
        clock.share = count < MAX_STEPS_PER_PICTURE ? clock.share - 1 : 0;
        step();
      }
      clock.stale = true;
    }
    clock.last = now;
    if (clock.stale) draw();
    clock.stale = false;
    requestAnimationFrame(tick);
  }

  byId("speed").append(...SPEEDS.map((times) => new Option(`${times}×`, times)));
  byId("speed").value = speed;
  requestAnimationFrame(tick);
  return Object.assign(clock, { start, stop });
}
