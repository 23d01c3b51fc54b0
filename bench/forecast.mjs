// How the forecast does on what a real GPU did, beside least squares over 15 s with a horizon of
// 30 s, which is what Prometheus' predict_linear does, in the same run.
//
//   npm run bench forecast [-- --json] [-- --chart docs/forecast.svg] [-- --growth used|aside|fresh|newest]
//
// `--growth` takes the set `series` of truth/ instead: those with the numbers 0 and 1 are
// `used`, those with 2 and 3 were kept aside while the forecast was made, those with 4 and 5 are
// `fresh`, and those with 6 and 7 `newest`: both were recorded after it was last changed.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { parseRecordedTrace } from '../dist/device/recorded-trace.js';
import { replayTrace } from '../dist/watch/diagnosis/replay.js';
import { drawTraces } from './forecast/chart.mjs';
import { median } from './statistics.mjs';
import { truthFolder, truthPlace } from './truth.mjs';

/** Our alarms from the first `high` on, as `plimsoll replay` lists them. */
function ours(trace) {
  const { alarms } = replayTrace(parseRecordedTrace(JSON.stringify(trace), trace.name));
  return alarms.filter(({ risk }) => risk === 'high' || risk === 'critical');
}

const windowSeconds = 15;
const horizonSeconds = 30;

/**
 * An alarm at each reading at which the line through the last 15 s reaches the capacity within
 * 30 s. The line is the one that predict_linear fits.
 */
function leastSquares(trace, columnName) {
  const column = trace.columns.indexOf(columnName);
  const at = trace.columns.indexOf('seconds');
  const alarms = [];
  for (const [i, row] of trace.rows.entries()) {
    const now = row[at];
    const window = trace.rows.slice(0, i + 1).filter((past) => past[at] > now - windowSeconds);
    // Before the window is full it would take every start for growth.
    if (now - trace.rows[0][at] < windowSeconds) continue;
    const meanT = window.reduce((sum, past) => sum + past[at], 0) / window.length;
    const meanY = window.reduce((sum, past) => sum + past[column], 0) / window.length;
    let up = 0;
    let down = 0;
    for (const past of window) {
      up += (past[at] - meanT) * (past[column] - meanY);
      down += (past[at] - meanT) ** 2;
    }
    if (down === 0) continue;
    const slope = up / down;
    const level = meanY + slope * (now - meanT);
    if (level + slope * horizonSeconds < trace.capacity) continue;
    const etaSeconds = slope > 0 ? Math.max(0, (trace.capacity - level) / slope) : 0;
    alarms.push({ atSeconds: now, etaSeconds });
  }
  return alarms;
}

const leadSeconds = 5;
/** They run out of memory all at once, without a sign. */
const sudden = new Set(['batch-doubling', 'fragmenting']);
const targets = { caught: 'all', falseAlarms: 0, medianError: 0.1 };

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    chart: { type: 'string' },
    growth: { type: 'string' },
  },
});
const half = { used: /-[01]\./, aside: /-[23]\./, fresh: /-[45]\./, newest: /-[67]\./ }[
  values.growth
];
const folder = half ? truthFolder('series') : join(truthPlace, 'traces');
const traces = readdirSync(folder)
  .filter((file) => !half || half.test(file))
  .map((file) => {
    const text = readFileSync(join(folder, file), 'utf8');
    return Object.assign(JSON.parse(text), { name: file.replace('.json', '') });
  });

if (values.chart) {
  const entries = traces.map((trace) => ({ trace, alarm: ours(trace)[0] }));
  writeFileSync(values.chart, drawTraces(entries));
}

const methods = [
  { name: 'plimsoll', alarmsOf: ours },
  { name: 'least squares on allocated', alarmsOf: (trace) => leastSquares(trace, 'allocated') },
  { name: 'least squares on reserved', alarmsOf: (trace) => leastSquares(trace, 'reserved') },
];

const percent = (share) => `${(100 * share).toFixed(0)} %`.padStart(6);
const seconds = (value) => (value === null ? '-' : `${value.toFixed(1)} s`).padStart(9);

/** Alarms are `{atSeconds, etaSeconds}`: that memory runs out, and when. */
function judge(trace, alarms) {
  const died = trace.ended === 'oom';
  const left = (alarm) => trace.at - alarm.atSeconds;
  const first = alarms[0];
  return {
    trace: trace.name,
    ended: trace.ended,
    announced: died && !sudden.has(trace.scenario),
    leadSeconds: died && first ? left(first) : null,
    caught: died && first !== undefined && left(first) >= leadSeconds,
    falseAlarm: !died && first !== undefined,
    errors: died
      ? alarms
          .filter((alarm) => Number.isFinite(alarm.etaSeconds) && left(alarm) > 0)
          .map((alarm) => Math.abs(alarm.etaSeconds - left(alarm)) / left(alarm))
      : [],
  };
}

const results = methods.map(({ name, alarmsOf }) => {
  const rows = traces.map((trace) => judge(trace, alarmsOf(trace)));
  const announced = rows.filter((row) => row.announced);
  const survivors = rows.filter((row) => row.ended !== 'oom');
  return {
    method: name,
    announced: announced.length,
    caught: announced.filter((row) => row.caught).length,
    survivors: survivors.length,
    falseAlarms: survivors.filter((row) => row.falseAlarm).length,
    medianError: median(rows.flatMap((row) => row.errors)),
    rows,
  };
});

if (values.json) {
  console.log(JSON.stringify({ leadSeconds, targets, results }, undefined, 2));
} else {
  console.log('Seconds between the first alarm and the end (- : no alarm)\n');
  console.log(`${'trace'.padEnd(26)}${'ended'.padEnd(11)} plimsoll  on alloc.  on reserved`);
  for (const [i, { name, ended }] of traces.entries()) {
    const leads = results.map(({ rows }) =>
      rows[i].falseAlarm ? '    false' : seconds(rows[i].leadSeconds),
    );
    console.log(`${name.padEnd(26)}${ended.padEnd(11)}${leads[0]}  ${leads[1]}    ${leads[2]}`);
  }
  console.log(`\n${'method'.padEnd(30)}caught    false alarms  median error of the expected time`);
  for (const { method, announced, caught, survivors, falseAlarms, medianError } of results) {
    const share = `${caught} of ${announced}`.padEnd(10);
    console.log(
      `${method.padEnd(30)}${share}${`${falseAlarms} of ${survivors}`.padEnd(14)}${percent(medianError)}`,
    );
  }
  const ratio = results[1].medianError / results[0].medianError;
  console.log(`\nerror of least squares on allocated over ours: ${ratio.toFixed(1)}`);
  console.log('targets: all caught 5 s ahead, no false alarm, median error at most 10 %');
}
const [own] = results;
const reached =
  own.caught === own.announced && own.falseAlarms === 0 && own.medianError <= targets.medianError;
process.exitCode = reached ? 0 : 1;
