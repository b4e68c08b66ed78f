// A pen that draws land and routes on the map, and the files that a scene is saved as and opened from.
import * as drafts from "./drafts.js";

// Least distance between the corners of land (m).
const CORNER_DISTANCE = 1.5;

// say: tells a sentence; change: edits the state that is shown; opened: shows the last of the scenarios.
export function make(session, data, { say, change, opened }) {
  // What is drawn, "land" or "route", or "", and the line so far.
  const pen = { kind: "", line: null };
  const clearRoute = (vessel) => Object.assign(vessel, { route: [], waypoint: 0, start: [vessel.x, vessel.y] });
  const now = () => session.now().state, content = () => drafts.fileOf(data.file, now(), session.k.scenario);

  function choose(kind) {
    pen.kind = pen.kind === kind ? "" : kind;
    if (pen.kind === "land") say("Draw around the land on the map; the button again ends it.");
    if (pen.kind !== "route") return;
    change((state) => clearRoute(state.vessels[session.chosen]));
    say(`Tap up to ${drafts.MAX_WAYPOINTS} waypoints of vessel ${session.chosen + 1} on the map.`);
  }

  function addWaypoint(place) {
    const { route = [] } = now().vessels[session.chosen];
    if (route.length >= drafts.MAX_WAYPOINTS) say(`A route has at most ${drafts.MAX_WAYPOINTS} waypoints.`);
    else change(({ vessels: { [session.chosen]: vessel } }) => (vessel.route ? vessel : clearRoute(vessel)).route.push(place));
  }

  function addLand(line) {
    const land = drafts.landIn(line, CORNER_DISTANCE), { shores = [] } = now();
    if (!land.length) say("Land must be drawn around, without a crossing.");
    else if (shores.length + land.length > drafts.MAX_SEGMENTS) say("There is no room for more land.");
    else change((state) => { state.shores = [...shores, ...land]; });
  }

  // Put the pen down at a place; false if there is no pen.
  function down(place) {
    if (pen.kind === "route") addWaypoint(place);
    if (pen.kind === "land") pen.line = [place];
    return Boolean(pen.kind);
  }

  function up() {
    if (pen.line) addLand(pen.line);
    pen.line = null;
    session.stale();
  }

  function move(place) {
    pen.line?.push(place);
    if (pen.line) session.stale();
  }

  function save() {
    const url = URL.createObjectURL(new Blob([JSON.stringify(content())], { type: "application/json" }));
    Object.assign(document.createElement("a"), { href: url, download: "scenario.json" }).click();
    URL.revokeObjectURL(url);
    say("The scenario is in scenario.json, a file for --scenarios.");
  }

  async function open(file) {
    try {
      const episode = drafts.episodeOf(JSON.parse(await file.text()), content(), data.config.scenario);
      data.scenarios.push({ suite: "file", group: "Files", name: file.name, episode });
      opened();
    } catch { say(`${file.name} is no scenario file or chart of marinenav.`); }
  }

  return Object.assign(pen, { choose, down, move, up, save, open });
}
