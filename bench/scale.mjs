// What docs/scale.md multiplies: processor time, memory and files of the supervisor of one job, and of putting
// together what a Prometheus answers about many nodes, each in a process of its own. Needs Linux and Python.
//
//   npm run build && npm run bench scale [-- --json]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: { json: { type: 'boolean', default: false }, child: { type: 'string' } },
});
const gpus = 8;
const block = 4096;
/** Runs a program and tells what it and all its children took. */
const counted = `import json, resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
took = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"cpuSeconds": took.ru_utime + took.ru_stime, "peakBytes": took.ru_maxrss * 1024}))`;

if (values.child === undefined) {
  const supervisors = [1, 11].map(supervisor);
  const self = fileURLToPath(import.meta.url);
  const fleets = ['1000', '10000'].map((nodes) =>
    JSON.parse(execFileSync(process.execPath, [self, '--child', nodes], { encoding: 'utf8' })),
  );
  if (values.json) console.log(JSON.stringify({ supervisors, fleets }, undefined, 2));
  else print(supervisors, fleets);
} else console.log(JSON.stringify(await fleetAnswer(Number(values.child))));

function supervisor(seconds) {
  const home = mkdtempSync(join(tmpdir(), 'plimsoll-bench-scale-'));
  try {
    const starter = fileURLToPath(new URL('../bin/plimsoll.js', import.meta.url));
    const run = [process.execPath, starter, 'run', '--', 'sleep', String(seconds)];
    const env = { ...process.env, PLIMSOLL_HOME: home };
    const took = JSON.parse(execFileSync('python3', ['-c', counted, ...run], { env }));
    const files = readdirSync(home, { recursive: true })
      .map((name) => statSync(join(home, name)))
      .filter((one) => one.isFile());
    const bytes = files.reduce((all, { size }) => all + Math.ceil(size / block) * block, 0);
    return { seconds, ...took, files: files.length, bytes };
  } finally {
    rmSync(home, { recursive: true });
  }
}

async function fleetAnswer(nodes) {
  const { fleetOf } = await import('../dist/fleet/fleet.js');
  const { bundled } = await import('./bundled.mjs');
  const { madeAnswers } = await bundled('src/fleet/made-fleet-for-tests.ts');
  const answers = madeAnswers(nodes, gpus);
  const before = process.cpuUsage();
  const epochMs = Date.now();
  const answer = JSON.stringify(fleetOf({ epochMs, windowSeconds: 3600, answers, history: [] }));
  const { user, system } = process.cpuUsage(before);
  const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'));
  return {
    nodes,
    cpuSeconds: (user + system) / 1e6,
    answerBytes: answer.length,
    peakBytes: Number(kibibytes) * 1024,
  };
}

function mb(bytes) {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

function print(supervisors, fleets) {
  for (const { seconds, cpuSeconds, peakBytes, files, bytes } of supervisors) {
    const disk = `${files} files, ${(bytes / 1024).toFixed(0)} KiB`;
    console.log(
      `plimsoll run -- sleep ${seconds}: ${cpuSeconds.toFixed(2)} s of CPU, ${mb(peakBytes)}; ${disk}`,
    );
  }
  for (const { nodes, cpuSeconds, answerBytes, peakBytes } of fleets) {
    const cost = `${cpuSeconds.toFixed(2)} s of CPU, ${mb(peakBytes)}`;
    console.log(`the fleet of ${nodes} nodes: ${cost}; an answer of ${mb(answerBytes)}`);
  }
}
