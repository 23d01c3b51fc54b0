import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { metricsOn } from '../../../test/deploy/deploy-files.js';
import { eventually } from '../../../test/support/made-once.js';
import { root } from '../../../test/support/project-files.js';
import type { Discovery } from '../../device/discover.js';
import type { Device, ProcessReading } from '../../device/types.js';
import { systemClock } from '../../time/clock.js';
import { GiB } from '../../units/bytes.js';
import { fakeDevice, memory } from '../../watch/fake-device-for-tests.js';
import { NodeJobs, openNodeWatch, ProcessOwners } from './node-watch.js';

function discoveryOf(devices: readonly Device[]): Discovery {
  return {
    devices,
    notes: [],
    rescan: () => Promise.resolve({ appeared: [], vanished: [] }),
    close: () => {},
  };
}

async function child(environment: Readonly<Record<string, string>>): Promise<number> {
  const started = spawn('sleep', ['600'], {
    env: { ...process.env, ...environment },
    stdio: 'ignore',
  });
  onTestFinished(() => void started.kill('SIGKILL'));
  await once(started, 'spawn');
  return started.pid ?? 0;
}

function open(devices: readonly Device[], maxProcesses = 50) {
  const node = openNodeWatch({
    discovery: discoveryOf(devices),
    watch: { intervalSeconds: 0.02, processIntervalSeconds: 0.05 },
    loadLine: 0.9,
    maxProcesses,
    node: 'n1',
    version: '1.2.3',
    clock: systemClock,
  });
  onTestFinished(() => node.close());
  return node;
}

function valuesIn(page: string): ReadonlyMap<string, number> {
  const lines = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ');
      return [line.slice(0, at), Number(line.slice(at + 1))];
    }),
  );
}

/** A GPU that really is not there, but whose processes are. */
function gpu(id: string, processes: readonly ProcessReading[]): Device {
  return fakeDevice({
    id,
    name: 'Test GPU',
    provenance: 'measured',
    read: () => memory(9.9 * GiB),
    processes: () => Promise.resolve(processes),
  });
}

describe('the page of a node', () => {
  it('shows devices, processes with user, job and rank, and what jobs hold together', async () => {
    const job = { SLURM_JOB_ID: '4711', SLURM_JOB_NAME: 'bert', PLIMSOLL_MEMORY_BYTES: '9000' };
    const [one, two] = [
      await child({ ...job, RANK: '0' }),
      await child({ ...job, RANK: '1', WORLD_SIZE: '2' }),
    ];
    const processes = [
      { pid: one, name: 'python', usedBytes: 5000 },
      { pid: two, name: 'python', usedBytes: 3000 },
    ];
    const node = open([gpu('gpu:0', processes), gpu('gpu:1', processes.slice(1))]);
    await eventually(() => node.text().includes('device="gpu:1",pid='));
    const page = node.text();
    const values = valuesIn(page);
    const device = '{device="gpu:0",name="Test GPU",provenance="measured"}';
    const { username: user } = userInfo();
    const ofRank = (rank: number, pid: number) =>
      `{device="gpu:0",pid="${pid}",process="python",user="${user}",engine="slurm",job_id="4711",rank="${rank}"${rank === 1 ? ',world_size="2"' : ''}}`;
    const held = (id: string) => `{engine="slurm",job_id="4711",name="bert",device="${id}"}`;
    for (const [name, value] of [
      ['plimsoll_node_info{node="n1",version="1.2.3"}', 1],
      [`plimsoll_device_present${device}`, 1],
      [`plimsoll_device_total_bytes${device}`, 10 * GiB],
      [`plimsoll_device_load_line_bytes${device}`, 9 * GiB],
      [`plimsoll_process_used_bytes${ofRank(0, one)}`, 5000],
      [`plimsoll_process_used_bytes${ofRank(1, two)}`, 3000],
      ['plimsoll_processes{device="gpu:0"}', 2],
      [`plimsoll_job_used_bytes${held('gpu:0')}`, 8000],
      [`plimsoll_job_used_bytes${held('gpu:1')}`, 3000],
      [`plimsoll_job_peak_bytes${held('gpu:0')}`, 8000],
      [`plimsoll_job_reserved_bytes${held('gpu:0')}`, 9000],
      ['plimsoll_jobs{state="running"}', 1],
      ['plimsoll_alerts{device="gpu:0",kind="gpu-critical",severity="critical"}', 1],
      ['plimsoll_alerts_total{kind="gpu-critical",severity="critical"}', 2],
      ['plimsoll_alerts_total{kind="leak",severity="warning"}', 0],
    ] as const) {
      expect([name, values.get(name)]).toEqual([name, value]);
    }
    expect(page).toMatch(/^process_cpu_seconds_total \d/m);
  });

  it('shows the largest processes only, and none of a simulated device as a real one', async () => {
    const processes = [
      { pid: process.pid, name: 'large', usedBytes: 9 },
      { pid: 1, name: 'small', usedBytes: 1 },
    ];
    const list = { processes: () => Promise.resolve(processes) };
    const node = open([fakeDevice({ id: 'gpu:0', ...list })], 1);
    await eventually(() => node.text().includes('plimsoll_process_used_bytes'));
    const shown = node
      .text()
      .split('\n')
      .filter((line) => line.startsWith('plimsoll_process_'));
    expect(shown).toEqual([
      `plimsoll_process_used_bytes{device="gpu:0",pid="${process.pid}",process="large"} 9`,
    ]);
  });

  it('tells of a device that vanished nothing but that', async () => {
    let isThere = true;
    const { DeviceLost } = await import('../../device/types.js');
    const node = open([
      fakeDevice({
        read() {
          if (isThere) return memory(GiB);
          throw new DeviceLost('gpu:0', 'It fell off the bus.');
        },
      }),
    ]);
    await eventually(() => node.text().includes('plimsoll_device_used_bytes'));
    isThere = false;
    await eventually(() => /^plimsoll_device_present\{.*\} 0$/m.test(node.text()));
    expect(node.text()).not.toContain('plimsoll_device_used_bytes');
  });
});

describe('jobs of a node', () => {
  it('keep their peak while they run, and are gone with their processes', () => {
    const job = {
      engine: 'slurm',
      id: '1',
      name: '',
      rank: 'none',
      worldSize: 'none',
      reservedBytes: 'unknown',
    } as const;
    const jobs = new NodeJobs();
    const using = (usedBytes: number | 'unknown') =>
      jobs.take([{ device: 'gpu:0', pid: 1, name: 'x', usedBytes, job }]);
    using(7);
    using(3);
    expect(jobs.all).toMatchObject([{ usedBytes: 3, peakBytes: 7, reservedBytes: 'unknown' }]);
    using('unknown');
    expect(jobs.all).toMatchObject([{ usedBytes: 'unknown', peakBytes: 7 }]);
    jobs.take([]);
    expect([jobs.all, jobs.count]).toEqual([[], 0]);
  });
});

describe('docs/exporter.md', () => {
  it('lists every metric with its labels, and no other', async () => {
    const pid = await child({ SLURM_JOB_ID: '1', RANK: '0', PLIMSOLL_MEMORY_BYTES: '9' });
    const node = open([gpu('gpu:0', [{ pid, name: 'python', usedBytes: 5 }])]);
    await eventually(() => node.text().includes('plimsoll_job_used_bytes'));
    const exported = metricsOn(node.text());
    const rows = readFileSync(`${root}docs/exporter.md`, 'utf8')
      .split('\n')
      .filter((line) => /^\| `(plimsoll|process)_/.test(line));
    const listed = new Map<string, readonly string[]>();
    let labels: readonly string[] = [];
    for (const row of rows) {
      const [, names = '', cell = ''] = row.split('|');
      const [first = '', ...others] = [...names.matchAll(/`(\w+)`/g)].map(
        (match) => match[1] ?? '',
      );
      if (!cell.includes('the same')) {
        labels = [...cell.matchAll(/`(\w+)`/g)].map((match) => match[1] ?? '');
      }
      const base = /^plimsoll_[a-z]+/.exec(first)?.[0] ?? '';
      const all = others.map((name) => (name.startsWith('_') ? `${base}${name}` : name));
      for (const name of [first, ...all]) listed.set(name, labels);
    }
    // They need a past; what they are taken from is tested in src/watch/ and src/server/metrics/.
    const later =
      /_leak$|_risk$|growth_bytes_per_second$|_leak_bytes_per_second$|out_of_memory_seconds$|utilization_percent$/;
    expect([...exported.keys()].filter((name) => !listed.has(name))).toEqual([]);
    expect([...listed.keys()].filter((name) => !exported.has(name) && !later.test(name))).toEqual(
      [],
    );
    for (const [name, has] of exported) {
      expect([name, [...has].filter((one) => !listed.get(name)?.includes(one))]).toEqual([
        name,
        [],
      ]);
    }
  });
});

function procTree() {
  const procRoot = mkdtempSync(join(tmpdir(), 'plimsoll-owners-'));
  onTestFinished(() => rmSync(procRoot, { recursive: true, force: true }));
  return {
    procRoot,
    /** Also in the place of an older process of the same pid. */
    begin(pid: number, started: number, jobId: string) {
      const folder = join(procRoot, String(pid));
      mkdirSync(folder, { recursive: true });
      const others = Array.from({ length: 18 }, () => '0').join(' ');
      writeFileSync(join(folder, 'stat'), `${pid} (python) S ${others} ${started}\n`);
      writeFileSync(join(folder, 'environ'), `SLURM_JOB_ID=${jobId}\0`);
    },
    end: (pid: number) => rmSync(join(procRoot, String(pid)), { recursive: true }),
  };
}

describe('process owners', () => {
  it('knows whose a process is, and finds another of the same pid when it left or some lists later', () => {
    const tree = procTree();
    const owners = new ProcessOwners({ procRoot: tree.procRoot, userName: () => 'ada' });
    const jobs = (...pids: readonly number[]) =>
      [...owners.read(new Set(pids))].map(([pid, { job }]) => [pid, job?.id]);
    tree.begin(7, 100, '1');
    tree.begin(8, 100, '2');
    expect(jobs(7, 8, 9)).toEqual([
      [7, '1'],
      [8, '2'],
    ]);
    // It left the list, and its pid came back as another process.
    expect(jobs(8)).toEqual([[8, '2']]);
    tree.begin(7, 200, '3');
    expect(jobs(7, 8)).toEqual([
      [7, '3'],
      [8, '2'],
    ]);
    // Between two lists, which no list can show: it is found out all the same.
    tree.begin(7, 300, '4');
    tree.end(8);
    jobs(7, 8);
    expect(jobs(7, 8)).toEqual([[7, '4']]);
  });
});
