// Claims that any machine can measure: from the rows that were kept of their benchmarks, or measured now.
import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { rowsNamed } from './figures.mjs';
import { reached } from './recorded.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const percent = (share) => `${Math.round(share * 100)} %`;

/** Each with its benchmark, how `--quick` runs it, and the rows that were kept of it. */
const measurable = [
  {
    claim: 'GC pauses -47 %',
    kept: 'gc.json',
    bench: ['bench/python_gc.py', '--json', '--rounds', '5'],
    quick: ['bench/python_gc.py', '--json', '--rounds', '1'],
    told: garbage,
  },
  {
    claim: 'compression 70 %',
    kept: 'buffers.json#compression',
    bench: ['bench/buffers.mjs', '--only', 'compression', '--json'],
    quick: ['bench/buffers.mjs', '--only', 'compression', '--rounds', '1', '--json'],
    told: compression,
  },
  {
    claim: 'replay buffer -40 %',
    kept: 'replay-buffer.json',
    bench: ['bench/python_replay.py', '--json'],
    quick: ['bench/python_replay.py', '--json', '--rows', '50000', '--rounds', '3'],
    told: replay,
  },
  {
    claim: 'monitoring below 1 % of a core',
    kept: 'sampling.json',
    bench: ['bench/sampling.mjs', '--json', '--settle', '30', '--seconds', '30'],
    quick: ['bench/sampling.mjs', '--json', '--settle', '2', '--seconds', '5'],
    told: watching,
  },
];

export function keptClaims() {
  return measurable.map(({ claim, kept, told }) => {
    const { command, date, machine, result } = rowsNamed(kept);
    const on = `${machine.processor}, ${machine.cores} cores, ${date.slice(0, 10)}`;
    return Object.assign({ claim, on, command, source: 'measured' }, told(result));
  });
}

export function measuredClaims({ python, quick }) {
  const on = `${cpus()[0]?.model ?? 'this machine'}, ${cpus().length} cores, ${new Date().toISOString().slice(0, 10)}`;
  return measurable.map(({ claim, bench, quick: quickly, told }) => {
    const argv = quick ? quickly : bench;
    const isPython = argv[0].endsWith('.py');
    const found = ran(isPython ? python : process.execPath, argv);
    const command = `${isPython ? 'python' : 'node'} ${argv.join(' ')}`;
    const figures = found === undefined ? notMeasured : told(found);
    return Object.assign({ claim, on, command, source: 'measured' }, figures);
  });
}

function garbage({ less: { totalSeconds, longestSeconds } }) {
  return {
    ours: `-${percent(totalSeconds)} in all, -${percent(longestSeconds)} the longest`,
    verdict: reached([totalSeconds, longestSeconds], (share) => share >= 0.47),
    how: "plimsoll.schedule_gc beside Python's defaults in a loop with many objects and few cycles; one collection comes before the loop. With much garbage in cycles the total stays the same",
  };
}

function compression({ compression: found }) {
  const less = found.map(({ data, rows }) => {
    const { ratio } = rows.find(({ name }) => name === 'plimsoll');
    return [data.split(':')[0], 1 - 1 / ratio];
  });
  return {
    ours: less.map(([data, share]) => `${data} ${percent(share)}`).join(', '),
    verdict: reached(less, ([, share]) => share >= 0.7),
    how: 'BufferStore, which chooses the way by the data; the project names no data. Numbers without a pattern keep their size in any lossless way',
  };
}

function replay({ results }) {
  const less = results.map((one) => one.less);
  const speed = results.map((one) => one.throughput);
  return {
    ours: `-${percent(Math.min(...less))} to -${percent(Math.max(...less))}, at ${Math.min(...speed).toFixed(2)} x of the samples a second or more`,
    verdict: reached(less, (share) => share >= 0.4),
    how: 'plimsoll.replay beside plain arrays, uniform and by priority',
  };
}

function watching({ watching: watched }) {
  const shown = watched.map(
    (one) => `${one.corePercent.toFixed(2)} % at ${one.intervalSeconds} s (${one.source})`,
  );
  const { corePercent } = rowsNamed('recorded.json#watching').result;
  return {
    ours: shown.join(', '),
    verdict: reached(watched, (one) => one.corePercent < 1),
    how: `processor time of a process that watches, with history, forecast and alerts; a GPU: ${corePercent} % on an H200 (bench/results/watching.md)`,
  };
}

const notMeasured = {
  ours: 'not measured',
  verdict: 'unknown',
  how: 'its benchmark did not run here',
};

/** The document that a benchmark prints; its exit code only says whether its own target was met. */
function ran(program, argv) {
  const ended = spawnSync(program, argv, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 26 });
  try {
    return JSON.parse(ended.stdout);
  } catch {
    process.stderr.write(`${argv[0]}: ${ended.stderr ?? ended.error}\n`);
    return undefined;
  }
}
