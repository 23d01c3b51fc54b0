// What watching one device costs: CPU time of a process that watches, less that of one that idles.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { discoverDevices } from '../../dist/device/discover.js';
import { watch } from '../../dist/watch/watch.js';

const intervalSeconds = 0.1;
/** A process settles: V8 compiles what runs often. Reported apart, since it happens once. */
export const settleSeconds = 180;

/** Runs both processes at once and answers shares of one core. */
export async function measureWatching(program, { seconds, library }) {
  const args = ['--seconds', String(seconds), ...(library ? ['--library', library] : [])];
  const [watching, idle] = await Promise.all([
    runChild(program, 'watch', args),
    runChild(program, 'idle', args),
  ]);
  return {
    device: watching.device,
    source: watching.source,
    seconds,
    intervalSeconds,
    samples: watching.samples,
    watchingCpuMs: watching.cpuMs,
    idleCpuMs: idle.cpuMs,
    corePercent: percentOf(watching.cpuMs - idle.cpuMs, seconds),
    settlingCorePercent: percentOf(watching.settleCpuMs - idle.settleCpuMs, settleSeconds),
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
export async function beChild(role, { seconds, library }) {
  const report = role === 'watch' ? await watchOne(seconds, library) : await idleOn(seconds);
  await new Promise((resolve) => process.send(report, resolve));
  process.disconnect();
}

async function idleOn(seconds) {
  const begin = cpuMs();
  await sleep(settleSeconds * 1000);
  const settled = cpuMs();
  await sleep(seconds * 1000);
  return { settleCpuMs: settled - begin, cpuMs: cpuMs() - settled };
}

/** A GPU where there is one; with all that watching does: history, forecast, processes, alerts. */
async function watchOne(seconds, library) {
  const discovery = await discoverDevices(library === undefined ? {} : { libraryPath: library });
  const { devices } = discovery;
  const device = devices.find(({ info }) => info.kind === 'gpu') ?? devices[0];
  const begin = cpuMs();
  let settled;
  let samples = 0;
  const events = watch({
    discovery,
    devices: [device],
    intervalSeconds,
    durationSeconds: settleSeconds + seconds,
  });
  for await (const event of events) {
    if (event.type !== 'sample' || event.sample.atSeconds < settleSeconds) continue;
    settled ??= cpuMs();
    samples++;
  }
  const end = cpuMs();
  discovery.close();
  const { id, name, source } = device.info;
  return {
    device: `${id} ${name}`,
    source,
    samples,
    settleCpuMs: settled - begin,
    cpuMs: end - settled,
  };
}

function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
