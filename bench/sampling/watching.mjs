// What watching one device costs: CPU time of a process that watches, less that of one that idles.
// Beside it, in the same run, a bare loop that does nothing but read /proc/meminfo as often.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { discoverDevices } from '../../dist/device/discover.js';
import { watch } from '../../dist/watch/watch.js';

/** Runs all processes at once and answers shares of one core. `kind` is `gpu` or `host`. */
export async function measureWatching(program, { kind, seconds, settle, interval, library }) {
  const numbers = { seconds, settle, interval };
  const args = Object.entries(numbers).flatMap(([name, value]) => [`--${name}`, String(value)]);
  if (library) args.push('--library', library);
  const [watching, idle, bare] = await Promise.all([
    runChild(program, `watch-${kind}`, args),
    runChild(program, 'idle', args),
    runChild(program, 'meminfo', args),
  ]);
  return {
    device: watching.device,
    source: watching.source,
    seconds,
    intervalSeconds: interval,
    processes: watching.processes,
    samples: watching.samples,
    watchingCpuMs: watching.cpuMs,
    idleCpuMs: idle.cpuMs,
    corePercent: percentOf(watching.cpuMs - idle.cpuMs, seconds),
    bareCorePercent: percentOf(bare.cpuMs - idle.cpuMs, seconds),
    ratioToBare: (watching.cpuMs - idle.cpuMs) / Math.max(1, bare.cpuMs - idle.cpuMs),
    settleSeconds: settle,
    settlingCorePercent: percentOf(watching.settleCpuMs - idle.settleCpuMs, settle),
  };
}

function percentOf(milliseconds, seconds) {
  return (100 * milliseconds) / 1000 / seconds;
}

async function runChild(program, role, args) {
  const child = fork(program, ['--child', role, ...args]);
  const [[report], [code]] = await Promise.all([once(child, 'message'), once(child, 'exit')]);
  if (code !== 0) throw new Error(`the ${role} process ended with exit code ${code}`);
  return report;
}

/** The other side of `runChild`. */
export async function beChild(role, options) {
  const roles = {
    'watch-gpu': () => watchOne('gpu', options),
    'watch-host': () => watchOne('host', options),
    idle: () => runTimed(options, () => {}, 1),
    meminfo: () => runTimed(options, readMeminfo, options.interval),
  };
  const report = await roles[role]();
  await new Promise((resolve) => process.send(report, resolve));
  process.disconnect();
}

/** A timer and the work, nothing else. */
async function runTimed({ seconds, settle }, work, interval) {
  const timer = setInterval(() => work(), interval * 1000);
  const begin = cpuMs();
  await sleep(settle * 1000);
  const settled = cpuMs();
  await sleep(seconds * 1000);
  clearInterval(timer);
  return { settleCpuMs: settled - begin, cpuMs: cpuMs() - settled };
}

function readMeminfo() {
  return /^MemAvailable:\s+(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1];
}

/** With all that watching does: history, forecast, processes, alerts. */
async function watchOne(kind, { seconds, settle, interval, library }) {
  const discovery = await discoverDevices(library === undefined ? {} : { libraryPath: library });
  const { devices } = discovery;
  const device = devices.find(({ info }) => info.kind === kind) ?? devices[0];
  const begin = cpuMs();
  let settled;
  let samples = 0;
  let processes = 0;
  const events = watch({
    discovery,
    devices: [device],
    intervalSeconds: interval,
    durationSeconds: settle + seconds,
  });
  for await (const event of events) {
    if (event.type !== 'sample' || event.sample.atSeconds < settle) continue;
    settled ??= cpuMs();
    if (Array.isArray(event.sample.processes)) processes = event.sample.processes.length;
    samples++;
  }
  const end = cpuMs();
  discovery.close();
  const { id, name, source } = device.info;
  return {
    device: `${id} ${name}`,
    source,
    samples,
    processes,
    settleCpuMs: settled - begin,
    cpuMs: end - settled,
  };
}

function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
