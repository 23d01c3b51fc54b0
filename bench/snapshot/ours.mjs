// Reads a snapshot and tells how long that took and how much memory the process needed: one JSON
// line. With "analyse" as second argument, what is in it is analysed, too. Run it in a process of
// its own.
import { readFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';

const dist = process.env.PLIMSOLL_DIST ?? fileURLToPath(new URL('../../dist/', import.meta.url));
const load = (path) => import(pathToFileURL(`${dist}/${path}`).href);

/** The kernel's figure for this program alone: maxRSS counts what the parent held, too. */
function maxResident() {
  try {
    const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'));
    return Number(kibibytes) * 1024;
  } catch {
    return process.resourceUsage().maxRSS * 1024;
  }
}

export async function readOnce(file, andAnalyse) {
  const { readSnapshot } = await load('snapshot/read-snapshot.js');
  const started = performance.now();
  const before = process.cpuUsage();
  const snapshot = await readSnapshot(file).catch((error) => {
    if (error?.name !== 'Failure') throw error;
    return { devices: [], names: { stacks: [] }, refused: error.code };
  });
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(before);
  const peakBytes = maxResident();
  const [device] = snapshot.devices;
  const result = {
    seconds,
    busySeconds: (user + system) / 1e6,
    peakBytes,
    events: device?.events.length ?? 0,
    stacks: snapshot.names.stacks.length,
    refused: snapshot.refused,
  };
  if (!andAnalyse || snapshot.refused) return result;
  const { analyseSnapshot } = await load('snapshot/analyse.js');
  const from = performance.now();
  const { history } = analyseSnapshot(snapshot);
  return {
    ...result,
    analyseSeconds: (performance.now() - from) / 1000,
    analysePeakBytes: maxResident(),
    driftBytes: history.driftBytes,
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  console.log(JSON.stringify(await readOnce(process.argv[2], process.argv[3] === 'analyse')));
}
