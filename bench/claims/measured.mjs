// Claims that any machine can measure: they are measured now, each by the benchmark it has.
import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { reached } from './recorded.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const percent = (share) => `${Math.round(share * 100)} %`;

export function measuredClaims({ python, quick }) {
  const on = `${cpus()[0]?.model ?? 'this machine'}, ${cpus().length} cores, ${new Date().toISOString().slice(0, 10)}`;
  return [garbage(python, quick, on), replay(python, quick, on), watching(quick, on)];
}

function garbage(python, quick, on) {
  const command = ['bench/python_gc.py', '--json', '--rounds', quick ? '1' : '5'];
  const found = ran(python, command);
  const row = {
    claim: 'GC pauses -47 %',
    on,
    command: `python ${command.join(' ')}`,
    source: 'measured',
  };
  if (found === undefined) return { ...row, ...notMeasured };
  const { totalSeconds, longestSeconds } = found.less;
  return {
    ...row,
    ours: `-${percent(totalSeconds)} in all, -${percent(longestSeconds)} the longest`,
    verdict: reached([totalSeconds, longestSeconds], (share) => share >= 0.47),
    how: "plimsoll.schedule_gc beside Python's defaults in a loop with many objects and few cycles; one collection comes before the loop. With much garbage in cycles the total stays the same",
  };
}

function replay(python, quick, on) {
  const size = quick ? ['--rows', '50000', '--rounds', '3'] : [];
  const command = ['bench/python_replay.py', '--json', ...size];
  const found = ran(python, command);
  const row = {
    claim: 'replay buffer -40 %',
    on,
    command: `python ${command.join(' ')}`,
    source: 'measured',
  };
  if (found === undefined) return { ...row, ...notMeasured };
  const less = found.results.map((one) => one.less);
  const speed = found.results.map((one) => one.throughput);
  return {
    ...row,
    ours: `-${percent(Math.min(...less))} to -${percent(Math.max(...less))}, at ${Math.min(...speed).toFixed(2)} x of the samples a second or more`,
    verdict: reached(less, (share) => share >= 0.4),
    how: 'plimsoll.replay beside plain arrays, uniform and by priority',
  };
}

function watching(quick, on) {
  const pace = quick ? ['--settle', '2', '--seconds', '5'] : ['--settle', '30', '--seconds', '30'];
  const command = ['bench/sampling.mjs', '--json', ...pace];
  const found = ran(process.execPath, command);
  const row = {
    claim: 'monitoring below 1 % of a core',
    on,
    command: `node ${command.join(' ')}`,
    source: 'measured',
  };
  if (found === undefined) return { ...row, ...notMeasured };
  const shown = found.watching.map(
    (one) => `${one.corePercent.toFixed(2)} % at ${one.intervalSeconds} s (${one.source})`,
  );
  return {
    ...row,
    ours: shown.join(', '),
    verdict: reached(found.watching, (one) => one.corePercent < 1),
    how: 'processor time of a process that watches, with history, forecast and alerts; a GPU: 0.41 % on an H200, 2026-11-15 (bench/results/watching.md)',
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
