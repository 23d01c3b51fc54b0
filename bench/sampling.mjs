// What seeing memory costs. Run it on a machine with an NVIDIA GPU and a C compiler:
//
//   npm run build && npm run bench:sampling [-- --json]
//   ./runtime/node bench/sampling.mjs        (in an archive made with --with-bench)
//
// Without a GPU the reading is left out, and the host is watched instead; the output says so.
import { parseArgs } from 'node:util';
import { measureReading } from './sampling/reading.mjs';
import { beChild, measureWatching, settleSeconds } from './sampling/watching.mjs';

const targets = { readingRatio: 1.3, watchingCorePercent: 0.5 };

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '60' },
    calls: { type: 'string', default: '2000' },
    seconds: { type: 'string', default: '30' },
    library: { type: 'string' },
    json: { type: 'boolean', default: false },
    child: { type: 'string' },
  },
});

const { library } = values;
const seconds = Number(values.seconds);

if (values.child === undefined) await measure();
else await beChild(values.child, { seconds, library });

async function measure() {
  const reading = await measureReading({
    rounds: Number(values.rounds),
    calls: Number(values.calls),
    library,
  });
  const watching = await measureWatching(import.meta.filename, { seconds, library });
  if (values.json) console.log(JSON.stringify({ reading, watching, targets }, undefined, 2));
  else print(reading, watching);
  const slow = 'ratio' in reading && reading.ratio > targets.readingRatio;
  const heavy = isGpu(watching) && watching.corePercent > targets.watchingCorePercent;
  process.exitCode = slow || heavy ? 1 : 0;
}

function print(reading, watching) {
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
  console.log(
    `Watching ${watching.device} (${watching.source}) every ${watching.intervalSeconds} s`,
  );
  console.log(`(${watching.samples} samples in ${watching.seconds} s; history, forecast, alerts)`);
  row('CPU time', `${watching.watchingCpuMs.toFixed(0)} ms`);
  row('CPU time of an idle process', `${watching.idleCpuMs.toFixed(0)} ms`);
  const target = isGpu(watching)
    ? `(target: at most ${targets.watchingCorePercent} %)`
    : '(the host, for want of a GPU: no target)';
  row('share of one core', `${watching.corePercent.toFixed(2)} % ${target}`);
  row(`in the first ${settleSeconds} s`, `${watching.settlingCorePercent.toFixed(2)} %`);
}

/** Reading the host and its processes is a matter of many files; the target is for a GPU. */
function isGpu(watching) {
  return watching.source !== 'host';
}

function row(name, value) {
  console.log(`  ${name.padEnd(34)} ${value}`);
}

function microseconds(value) {
  return value === 'unknown' ? value : `${value.toFixed(2)} us`;
}
