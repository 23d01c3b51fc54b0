import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { expositionText, madeNode, nodeName } from '../../../src/fleet/made-fleet-for-tests.js';
import { isAtRisk } from '../../../src/fleet/risk-order.js';
import type { Fleet, FleetDevice, FleetTraining } from '../../../src/fleet/types.js';
import { deployFolder, deployText } from '../../deploy/deploy-files.js';
import { root } from '../../support/project-files.js';
import {
  prometheusPackages,
  type ScrapeTarget,
  startPrometheus,
  type TestPrometheus,
} from './prometheus-server.js';

const program = join(root, 'bin/plimsoll.js');
const replayed = 997;
const gpus = 8;
const real = ['real-a', 'real-b', 'real-c'];
/** Of a training over the real nodes, one rank each; the last of its ranks is nowhere. */
const rankBytes = [300, 200, 100].map((mebibytes) => mebibytes * 2 ** 20);
const rankVariables = { WORLD_SIZE: '4', MASTER_ADDR: 'real-a', MASTER_PORT: '29500' };

let folder = '';
let nodes: readonly RealNode[] = [];
let replay: Server;
let prometheus: TestPrometheus;

interface RealNode {
  readonly name: string;
  readonly child: ChildProcess;
  readonly address: string;
}

interface Answer {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-fleet-'));
  nodes = await Promise.all(real.map(startNode));
  const texts = Array.from({ length: replayed }, (_, node) => expositionText(madeNode(node, gpus)));
  replay = createServer((request, response) => {
    response.end(texts[Number(/^\/nodes\/(\d+)$/.exec(request.url ?? '')?.[1])]);
  });
  await new Promise<void>((resolve) => replay.listen(0, '127.0.0.1', resolve));
  const address = replay.address();
  const port = typeof address === 'object' ? address?.port : 0;
  prometheus = await startPrometheus([
    ...nodes.map(({ name, address: own }): ScrapeTarget => ({ address: own, instance: name })),
    ...Array.from(
      { length: replayed },
      (_, node): ScrapeTarget => ({
        address: `127.0.0.1:${port}`,
        path: `/nodes/${node}`,
        instance: `${nodeName(node)}:9847`,
      }),
    ),
  ]);
});
afterAll(async () => {
  await prometheus?.stop();
  replay?.closeAllConnections();
  replay?.close();
  await Promise.all(nodes.map(({ child }) => ended(child)));
  rmSync(folder, { recursive: true, force: true });
});

/**
 * A node: `plimsoll exporter` and a rank of a training that holds memory, in a process namespace of their
 * own, so that it sees no processes of the other nodes.
 */
async function startNode(name: string, rank: number): Promise<RealNode> {
  const words = ['exporter', '--port', '0', '--simulate', 'steady', '--json', '--node', name];
  const holds = `const held = Buffer.alloc(${rankBytes[rank]}, 1); setInterval(() => held[0]++, 1000)`;
  const script = 'RANK=$1 "$NODE" -e "$2" & shift 2; exec "$NODE" "$@"';
  const mapped = process.getuid?.() === 0 ? [] : ['--map-root-user'];
  const own = [...mapped, '--pid', '--fork', '--kill-child', '--mount-proc'];
  const shell = ['sh', '-c', script, 'sh', String(rank), holds];
  const child = spawn('unshare', [...own, ...shell, program, ...words], {
    cwd: folder,
    env: { ...process.env, ...rankVariables, NODE: process.execPath },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  for await (const chunk of child.stdout) {
    text += chunk;
    if (text.includes('\n')) break;
  }
  const { place }: { place: string } = JSON.parse(text);
  return { name, child, address: new URL(place).host };
}

/** With all that runs in its namespace. */
async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}

async function fleet(words: readonly string[]): Promise<Answer> {
  const child = spawn(
    process.execPath,
    [program, 'fleet', '--prometheus', prometheus.url, '--timeout', '600s', ...words],
    { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const [stdout, stderr, [code]] = await Promise.all([
    textOf(child.stdout),
    textOf(child.stderr),
    once(child, 'close'),
  ]);
  return { code, stdout, stderr };
}

async function textOf(stream: AsyncIterable<unknown>): Promise<string> {
  let text = '';
  for await (const chunk of stream) text += chunk;
  return text;
}

async function seen(): Promise<Fleet> {
  for (;;) {
    const { code, stdout, stderr } = await fleet(['--json']);
    if (code === 0) return JSON.parse(stdout);
    // Until the first scrape it knows none.
    if (!stderr.includes('no-nodes')) throw new Error(stderr);
  }
}

async function trainingOf(id: string): Promise<FleetTraining | undefined> {
  const { code, stdout } = await fleet(['--job', id, '--json']);
  return code === 0 ? JSON.parse(stdout) : undefined;
}

/** Once every node was scraped. */
async function whole(): Promise<Fleet> {
  for (;;) {
    const found = await seen();
    // It was put together from several queries: what was scraped between two of them is whole in the next.
    if (found.totals.nodes === replayed + real.length) return seen();
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

const figures: ReadonlyMap<string, keyof FleetDevice> = new Map([
  ['plimsoll_device_total_bytes', 'totalBytes'],
  ['plimsoll_device_used_bytes', 'usedBytes'],
  ['plimsoll_device_load_line_bytes', 'loadLineBytes'],
  ['plimsoll_device_out_of_memory_seconds', 'etaSeconds'],
  ['plimsoll_device_leak_bytes_per_second', 'leakBytesPerSecond'],
  ['plimsoll_job_reserved_bytes', 'reservedBytes'],
] as const);

describe('a fleet of 1,000 nodes behind a real Prometheus', () => {
  it('is answered as the nodes said, figure by figure', async () => {
    const found = await whole();
    const byName = new Map(found.nodes.map((node) => [node.name, node]));
    for (let node = 0; node < replayed; node++) {
      const said = madeNode(node, gpus);
      const devices = new Map(byName.get(nodeName(node))?.devices.map((one) => [one.id, one]));
      expect(devices.size).toBe(gpus);
      const expected = said.flatMap(({ name, labels: { device = '' }, value }) => {
        const figure = figures.get(name);
        return figure === undefined ? [] : [{ device, figure, value }];
      });
      const answered = expected.map(({ device, figure }) => {
        return { device, figure, value: devices.get(device)?.[figure] };
      });
      expect(answered).toEqual(expected);
    }
    const ofReal = real.flatMap((name) => byName.get(name)?.devices ?? []);
    const others = (count: (device: FleetDevice) => boolean) => ofReal.filter(count).length;
    // The memory of this machine is real: it may grow, or run short, while other tests run.
    expect(found.totals).toMatchObject({
      silentNodes: 0,
      atRisk: 20 + others(isAtRisk),
      leaking: 25 + others(({ leakBytesPerSecond }) => leakBytesPerSecond !== null),
    });
    for (const name of real) {
      const devices = byName.get(name)?.devices ?? [];
      expect(devices.map(({ id }) => id)).toEqual(expect.arrayContaining(['gpu:0', 'host']));
      const host = devices.find(({ id }) => id === 'host');
      expect(host).toMatchObject({ provenance: 'measured', silent: false });
      expect(host?.totalBytes).toBeGreaterThan(0);
    }
  });

  it('shows the ranks of one training on several nodes as one', async () => {
    await whole();
    const training = await trainingOf('t0');
    if (training === undefined) throw new Error('there is no training t0');
    expect(training).toMatchObject({ id: 't0', name: 'pretrain', worldSize: 32, missing: 0 });
    expect(new Set(training.ranks.map(({ node }) => node))).toEqual(
      new Set(['n0000', 'n0010', 'n0020', 'n0030']),
    );
    const used = training.ranks.map(({ usedBytes }) => usedBytes);
    expect(training.spreadBytes).toBe(Math.max(...used) - Math.min(...used));
    expect((await fleet(['--job', 'nothing'])).code).toBe(2);
  });

  it('shows real processes on three nodes as one training, and which rank is missing', async () => {
    let training: FleetTraining | undefined;
    // A rank is seen from its first moment on, also before it has taken its memory.
    const full = async () => {
      training = await trainingOf('real-a:29500');
      const ranks = training?.ranks ?? [];
      return ranks.filter(({ rank, usedBytes }) => usedBytes >= (rankBytes[rank] ?? Infinity));
    };
    await expect.poll(full, { interval: 3000 }).toHaveLength(3);
    expect(training).toMatchObject({ engine: 'torch', worldSize: 4, missing: 1 });
    const ranks = training?.ranks ?? [];
    expect(ranks.map(({ rank, node }) => `${rank} ${node}`)).toEqual(
      real.map((name, rank) => `${rank} ${name}`),
    );
    expect(training?.spreadBytes).toBeGreaterThan(100 * 2 ** 20);
    expect(training?.warnings.join()).toContain('1 of 4 ranks are not seen');
  });

  it('says in words what needs a look, and ends with 1 where it is asked to check', async () => {
    const { code, stdout } = await fleet(['--check']);
    expect(code).toBe(1);
    expect(stdout).toContain('1,000 nodes');
    expect(stdout).toMatch(/n0003 +gpu:1 +critical +9\.0 s/);
    expect(stdout).toMatch(/Leaks:[^]*3\.0 MiB a second/);
  });

  it('tells which node fell silent', async () => {
    const [lost] = nodes;
    if (lost === undefined) throw new Error('there is no node');
    await ended(lost.child);
    await expect
      .poll(
        async () => (await seen()).nodes.filter(({ silent }) => silent).map(({ name }) => name),
        {
          interval: 3000,
        },
      )
      .toEqual([lost.name]);
  });
});

const fine = { status: 0, stderr: '' };

function promtool(...words: readonly string[]): object {
  const program = join(prometheusPackages(), 'usr/bin/promtool');
  const { status, stderr } = spawnSync(program, words, { encoding: 'utf8' });
  return { status, stderr };
}

it.each(['alerts', 'exporter-alerts'])('promtool finds no fault with %s, and they fire', (name) => {
  expect(promtool('check', 'rules', join(deployFolder, `${name}.yml`))).toEqual(fine);
  expect(promtool('test', 'rules', join(deployFolder, `${name}.test.yml`))).toEqual(fine);
});

it('promtool finds no fault with the configuration', () => {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-alerts-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  // It wants to see the token, which is only there where the server runs.
  writeFileSync(join(folder, 'token'), 'x');
  copyFileSync(join(deployFolder, 'alerts.yml'), join(folder, 'alerts.yml'));
  const config = deployText('prometheus.yml').replace('/run/secrets/plimsoll_token', 'token');
  writeFileSync(join(folder, 'prometheus.yml'), config);
  expect(promtool('check', 'config', join(folder, 'prometheus.yml'))).toEqual(fine);
});
