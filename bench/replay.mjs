// Replays a million rows, beside reading the same file with JSON.parse, in the same run.
//
//   npm run bench replay [-- --rows 1000000]
import { parseArgs } from 'node:util';
import { parseRecordedTrace } from '../dist/device/recorded-trace.js';
import { replayTrace } from '../dist/watch/diagnosis/replay.js';

const { values } = parseArgs({ options: { rows: { type: 'string', default: '1000000' } } });
const most = Number(values.rows);
const GiB = 1024 ** 3;

/** Work in steps, and a slow leak on top of it; one reading a second is the costliest rate. */
function textOf(count, leakBytesPerSecond) {
  const rows = Array.from({ length: count }, (_, i) => {
    const work = GiB * Math.abs(((i * 0.37) % 1) - 0.5);
    const live = Math.round(2 * GiB + work + i * leakBytesPerSecond);
    return [i, live, Math.max(live, 3 * GiB), Math.max(live, 3 * GiB) + GiB / 2];
  });
  const columns = ['seconds', 'allocated', 'reserved', 'device_used'];
  return JSON.stringify({ capacity: 80 * GiB, columns, rows });
}

function seconds(work) {
  const { user } = process.cpuUsage();
  work();
  return (process.cpuUsage().user - user) / 1e6;
}

console.log('series      rows      replay, CPU   a row      JSON.parse   ratio');
for (const [name, leak] of [
  ['level', 0],
  ['leak', 50_000],
]) {
  for (const rows of [most / 10, most]) {
    const text = textOf(rows, leak);
    const bare = seconds(() => JSON.parse(text));
    const ours = seconds(() => replayTrace(parseRecordedTrace(text, 'made')));
    console.log(
      `${name.padEnd(12)}${String(rows).padEnd(10)}${`${ours.toFixed(1)} s`.padEnd(14)}${`${((1e6 * ours) / rows).toFixed(1)} us`.padEnd(11)}${`${bare.toFixed(2)} s`.padEnd(13)}${(ours / bare).toFixed(1)}`,
    );
  }
}
