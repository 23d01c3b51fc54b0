// The series that the forecast is judged on, as points, with the group that each belongs to.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { truthFolder, truthRows } from '../truth.mjs';

/** Runs that end all at once, without a sign. */
const sudden = new Set(['sudden', 'batch-doubling', 'fragmenting', 'one-large-batch']);
export const endsSuddenly = ({ kind }) => sudden.has(kind);

/** Growth that may go on after the recording, although it is no leak. */
const mayGoOn = new Set([
  'fill-levels',
  'cache-of-keys',
  'accelerates',
  'curriculum',
  'stairs',
  'stairs-accelerate',
  'cache-doubles',
  'batch-grows',
  'conversation',
  'accelerating',
  'unrolled',
  'snapshots',
  'results-kept',
]);

/** A generated series holds differences, in units; a recorded one has rows. */
function pointsOf(series) {
  if (series.interval === undefined) {
    const column = (name) => series.columns.indexOf(name);
    const [at, live, held] = ['seconds', 'allocated', 'reserved'].map(column);
    return series.rows.map((row) => ({
      seconds: row[at],
      limitBytes: series.capacity,
      heldBytes: row[held],
      liveBytes: row[live],
    }));
  }
  let live = 0;
  let held = 0;
  return series.allocated.map((more, i) => {
    live += more;
    held += series.reserved[i];
    return {
      seconds: i * series.interval,
      limitBytes: series.capacity,
      heldBytes: held * series.unit,
      liveBytes: live * series.unit,
    };
  });
}

function known(series, group, name) {
  const kind = series.kind ?? series.scenario;
  return {
    name,
    group,
    kind,
    ended: series.ended,
    at: series.at,
    leak: series.leak ?? null,
    interval: series.interval ?? 0.1,
    goesOn: series.ended !== 'oom' && (Boolean(series.leak) || mayGoOn.has(kind)),
    points: pointsOf(series),
  };
}

const load = (name, { file }) => JSON.parse(readFileSync(join(truthFolder(name), file), 'utf8'));

/** Which are kept out of the fit: every second program of those made; recorded ones by number or by scenario. */
export function forecastSeries({ every, fitted }) {
  const wanted = fitted ? 'fitting' : 'scoring';
  const of = (name) => truthRows(name).filter(({ set }) => set === wanted);
  const earlier = truthRows('series').filter(
    ({ set }) => ['used', 'aside'].includes(set) === fitted,
  );
  return function* () {
    for (const row of of('made')) {
      for (const [i, series] of load('made', row).entries()) {
        if (i % every === 0) yield known(series, 'generated', series.name);
      }
    }
    for (const row of earlier) yield known(load('series', row), 'recorded before', row.name);
    for (const row of of('marked'))
      yield known(load('marked', row), 'recorded with marks', row.name);
  };
}
