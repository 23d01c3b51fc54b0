// What seeing memory costs. Run it on a machine with an NVIDIA GPU and a C compiler:
//
//   npm run build && npm run bench sampling [-- --json]
//   ./runtime/node bench/sampling.mjs        (in an archive made with --with-bench)
//
// Without a GPU the reading and the watching of it are left out, and the output says so. The host is
// watched on every machine, at 0.1 s and at 1 s.
import { parseArgs } from 'node:util';
import { measureReading } from './sampling/reading.mjs';
import { beChild, measureWatching } from './sampling/watching.mjs';

const targets = { readingRatio: 1.3, watchingCorePercent: 0.5, watchingHostCorePercent: 1 };

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '60' },
    calls: { type: 'string', default: '2000' },
    seconds: { type: 'string', default: '30' },
    // A process settles: V8 compiles what runs often. Reported apart, since it happens once.
    settle: { type: 'string', default: '180' },
    interval: { type: 'string', default: '0.1' },
    library: { type: 'string' },
    json: { type: 'boolean', default: false },
    child: { type: 'string' },
  },
});

const { library } = values;
const pace = { seconds: Number(values.seconds), settle: Number(values.settle), library };

if (values.child === undefined) await measure();
else await beChild(values.child, { ...pace, interval: Number(values.interval) });

async function measure() {
  const reading = await measureReading({
    rounds: Number(values.rounds),
    calls: Number(values.calls),
    library,
  });
  const runs = [
    ...('skipped' in reading ? [] : [{ kind: 'gpu', interval: 0.1 }]),
    { kind: 'host', interval: 0.1 },
    { kind: 'host', interval: 1 },
  ];
  const watching = [];
  // One after the other: they would disturb one another.
  for (const run of runs) {
    watching.push(await measureWatching(import.meta.filename, { ...run, ...pace }));
  }
  if (values.json) console.log(JSON.stringify({ reading, watching, targets }, undefined, 2));
  else print(reading, watching);
  const slow = 'ratio' in reading && reading.ratio > targets.readingRatio;
  const heavy = watching.some((one) => one.corePercent > targetOf(one));
  process.exitCode = slow || heavy ? 1 : 0;
}

function print(reading, watched) {
  if ('skipped' in reading) {
    console.log(`One reading: left out, ${reading.skipped}`);
  } else {
    console.log(`One reading of ${reading.device}, driver ${reading.driver}`);
    console.log(`(medians of ${reading.rounds} rounds of ${reading.calls} calls, turn by turn)`);
    row('C, nvmlDeviceGetMemoryInfo_v2', microseconds(reading.cVersion2Us));
    row('C, nvmlDeviceGetMemoryInfo', microseconds(reading.cVersion1Us));
    row('plimsoll, memory', microseconds(reading.plimsollUs));
    row('plimsoll, memory and utilization', microseconds(reading.withUtilizationUs));
    row('ratio to C', `${reading.ratio.toFixed(2)} (target: at most ${targets.readingRatio})`);
  }
  for (const watching of watched) printWatching(watching);
}

function printWatching(watching) {
  const { device, source, intervalSeconds, samples, seconds, processes, settleSeconds } = watching;
  console.log(`Watching ${device} (${source}) every ${intervalSeconds} s`);
  console.log(
    `(${samples} samples in ${seconds} s, ${processes} processes; history, forecast, alerts)`,
  );
  row('CPU time', `${watching.watchingCpuMs.toFixed(0)} ms`);
  row('CPU time of an idle process', `${watching.idleCpuMs.toFixed(0)} ms`);
  row(
    'share of one core',
    `${percent(watching.corePercent)} (target: at most ${targetOf(watching)} %)`,
  );
  row('a bare loop that reads /proc/meminfo', percent(watching.bareCorePercent));
  row('ratio to the bare loop', watching.ratioToBare.toFixed(1));
  row(`in the first ${settleSeconds} s`, percent(watching.settlingCorePercent));
}

function percent(value) {
  return `${value.toFixed(2)} %`;
}

function targetOf({ source }) {
  return source === 'host' ? targets.watchingHostCorePercent : targets.watchingCorePercent;
}

function row(name, value) {
  console.log(`  ${name.padEnd(38)} ${value}`);
}

function microseconds(value) {
  return value === 'unknown' ? value : `${value.toFixed(2)} us`;
}
