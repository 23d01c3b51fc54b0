// How the forecast does on series that it was not fitted on: generated from programs that the fit left out, and
// recorded on a card. In the same run: predict_linear (15 s, horizon 30 s), a Kalman filter of level and trend, and
// a seasonal trend with the period that the autocorrelation shows.
//
//   npm run bench forecast [-- --json] [--every 5] [--all] [--chart docs/forecast.svg]
//
// `--every N` takes every Nth of the generated series. Exit code 1 where an aim is missed.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createDiagnosis } from '../dist/watch/diagnosis/diagnose.js';
import { drawTraces } from './forecast/chart.mjs';
import { rivals } from './forecast/rivals.mjs';
import { endsSuddenly, forecastSeries } from './forecast/series.mjs';
import { median } from './statistics.mjs';
import { truthPlace } from './truth.mjs';

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    every: { type: 'string', default: '5' },
    fitted: { type: 'boolean', default: false },
    kinds: { type: 'boolean', default: false },
    chart: { type: 'string' },
  },
});

const aims = { caught: 0.95, falseAlarms: 0.05, medianError: 0.15, inBounds: 0.9, core: 0.005 };
const leadSeconds = 5;
/** Ends before this time have no growth of 8 s before them. */
const leastSeconds = 9;
const horizons = [15, 60, 300];

/** Our answers, each at the time of a reading: a probability for each horizon, and an alarm or not. */
function ours() {
  const diagnosis = createDiagnosis();
  return (point) => {
    diagnosis.add(point);
    const { risk, probability, etaSeconds, lowSeconds, highSeconds } = diagnosis.forecast();
    const alarm = risk === 'high' || risk === 'critical';
    if (probability === 'unknown') return { alarm: false, probabilities: undefined };
    const { within15s, within60s, within5min } = probability;
    return {
      alarm,
      etaSeconds,
      lowSeconds,
      highSeconds,
      // A time is a promise only where no "if it goes on" stands beside it.
      sure: within60s >= 0.8,
      probabilities: [within15s, within60s, within5min],
    };
  };
}

/** One series through one method. */
function run(series, create) {
  const step = create(series);
  const answers = [];
  const begin = process.cpuUsage();
  for (const point of series.points) {
    const { alarm, ...answer } = step(point);
    answers.push({ seconds: point.seconds, alarm, ...answer });
  }
  const { user, system } = process.cpuUsage(begin);
  const first = answers.find(({ alarm }) => alarm);
  const died = series.ended === 'oom';
  const left = first ? series.at - first.seconds : undefined;
  const eta = typeof first?.etaSeconds === 'number' ? first.etaSeconds : undefined;
  const bad = horizons.map(() => [0, 0]);
  const bins = Array.from({ length: 10 }, () => [0, 0, 0]);
  let nextLook = 0;
  for (const { seconds, probabilities } of answers) {
    if (!probabilities || seconds < nextLook) continue;
    nextLook = seconds + Math.max(1, series.interval);
    for (const [place, horizon] of horizons.entries()) {
      const after = series.at - seconds;
      // A leak that goes on when the recording ends would have reached the limit later: it is not known when.
      if (!died && after < horizon && series.goesOn) continue;
      const came = died && after <= horizon ? 1 : 0;
      const share = probabilities[place];
      bad[place][0] += (share - came) ** 2;
      bad[place][1] += 1;
      if (horizon !== 60) continue;
      const bin = bins[Math.min(9, Math.floor(10 * share))];
      bin[0] += 1;
      bin[1] += share;
      bin[2] += came;
    }
  }
  return {
    name: series.name,
    kind: series.kind,
    group: series.group,
    died,
    announced: died && !endsSuddenly(series) && series.at >= leastSeconds,
    caught: died && left !== undefined && left >= leadSeconds,
    falseAlarm: !died && first !== undefined,
    sureFalseAlarm: !died && answers.some(({ alarm, sure }) => alarm && sure !== false),
    error: died && eta !== undefined && left > 0 ? Math.abs(eta - left) / left : undefined,
    inBounds:
      died && eta !== undefined
        ? left >= numberOf(first.lowSeconds, 0) && left <= numberOf(first.highSeconds, Infinity)
        : undefined,
    bad,
    bins,
    microseconds: user + system,
    points: series.points.length,
  };
}

const numberOf = (value, otherwise) => (typeof value === 'number' ? value : otherwise);
const share = (list, of) => (list.length === 0 ? NaN : list.filter(of).length / list.length);

function summary(method, rows) {
  const announced = rows.filter((row) => row.announced);
  const survivors = rows.filter((row) => !row.died);
  const bounded = rows.filter((row) => row.inBounds !== undefined);
  const brier = horizons.map((_, place) => {
    const sum = (which) => rows.reduce((all, { bad }) => all + bad[place][which], 0);
    return sum(0) / sum(1);
  });
  return {
    method,
    announced: announced.length,
    caught: announced.filter((row) => row.caught).length,
    survivors: survivors.length,
    falseAlarms: survivors.filter((row) => row.falseAlarm).length,
    sureFalseAlarms: survivors.filter((row) => row.sureFalseAlarm).length,
    medianError: median(rows.flatMap(({ error }) => (error === undefined ? [] : [error]))),
    inBounds: share(bounded, (row) => row.inBounds),
    brier,
    microsecondsAPoint:
      rows.reduce((sum, row) => sum + row.microseconds, 0) /
      rows.reduce((sum, row) => sum + row.points, 0),
  };
}

if (values.chart) {
  const folder = join(truthPlace, 'traces');
  const entries = readdirSync(folder).map((file) => {
    const trace = JSON.parse(readFileSync(join(folder, file), 'utf8'));
    const step = ours();
    const column = (name) => trace.columns.indexOf(name);
    const alarm = trace.rows
      .map((row) => ({
        atSeconds: row[column('seconds')],
        ...step({
          seconds: row[column('seconds')],
          limitBytes: trace.capacity,
          heldBytes: row[column('reserved')],
          liveBytes: row[column('allocated')],
        }),
      }))
      .find((one) => one.alarm);
    return { trace, alarm };
  });
  writeFileSync(values.chart, drawTraces(entries));
}

const methods = [{ name: 'plimsoll', create: ours }, ...rivals];
const all = forecastSeries({ every: Number(values.every), fitted: values.fitted });
const results = methods.map(({ name, create }) => {
  const rows = [];
  for (const series of all()) rows.push(run(series, create));
  return { name, rows };
});
const groups = [...new Set(results[0].rows.map(({ group }) => group))];
const tables = groups.map((group) => ({
  group,
  rows: results.map(({ name, rows }) =>
    summary(
      name,
      rows.filter((row) => row.group === group),
    ),
  ),
}));
const [own, ...others] = results.map(({ name, rows }) => summary(name, rows));
const reliability = Array.from({ length: 10 }, (_, bin) => {
  const sum = (which) => results[0].rows.reduce((total, { bins }) => total + bins[bin][which], 0);
  return { answers: sum(0), said: sum(1) / sum(0), came: sum(2) / sum(0) };
});

const percent = (value) =>
  (Number.isNaN(value) ? '-' : `${(100 * value).toFixed(0)} %`).padStart(6);
if (values.json) {
  console.log(
    JSON.stringify({ aims, own, others, tables, reliability, source: 'measured' }, undefined, 2),
  );
} else {
  for (const { group, rows } of [...tables, { group: 'all', rows: [own, ...others] }]) {
    console.log(
      `\n${group.padEnd(22)}caught       alarms in survivors (sure)  error   in bounds  Brier 15 s, 60 s, 5 min  us a reading`,
    );
    for (const row of rows) {
      console.log(
        `  ${row.method.padEnd(20)}${`${row.caught} of ${row.announced}`.padEnd(13)}` +
          `${`${row.falseAlarms} of ${row.survivors} (${row.sureFalseAlarms})`.padEnd(28)}${percent(row.medianError)}  ` +
          `${percent(row.inBounds)}     ${row.brier.map((one) => one.toFixed(3)).join('  ')}          ${row.microsecondsAPoint.toFixed(1)}`,
      );
    }
  }
  console.log('\nWithin 60 s: of the answers that said so much, how many came true');
  for (const { answers, said, came } of reliability) {
    if (answers > 0) console.log(`  said ${percent(said)}  came ${percent(came)}  of ${answers}`);
  }
  if (values.kinds) {
    for (const bad of ['falseAlarm', 'missed']) {
      const count = {};
      for (const row of results[0].rows) {
        const is = bad === 'missed' ? row.announced && !row.caught : row.falseAlarm;
        if (is) count[row.kind] = (count[row.kind] ?? 0) + 1;
      }
      console.log(bad, JSON.stringify(count));
    }
  }
}
const reached =
  own.caught >= aims.caught * own.announced &&
  own.falseAlarms <= aims.falseAlarms * own.survivors &&
  own.medianError <= aims.medianError &&
  own.inBounds >= aims.inBounds;
process.exitCode = reached ? 0 : 1;
