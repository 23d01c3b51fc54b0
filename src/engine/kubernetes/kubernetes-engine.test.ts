import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { kubernetesErrors } from '../../../test/support/kubernetes-schema.js';
import { GiB, MiB } from '../../units/bytes.js';
import type { ClusterOrder } from '../cluster.js';
import { jobManifest, jobName, jobViews, type ManifestStyle } from './job-view.js';
import { kubectlHere, kubectlStreamHere, readObjects } from './kubectl.js';
import { kubernetesEngine, StampedLog } from './kubernetes-engine.js';

const order: ClusterOrder = {
  name: 'train.py',
  command: ['python', 'train.py'],
  cwd: '/',
  gpus: 1,
  needBytes: 30 * GiB,
  basis: 'stated',
  estimatedBytes: 'unknown',
  workloadKey: 'k',
  batch: 'unknown',
  maxAttempts: 1,
  options: [],
};
const style: ManifestStyle = {
  image: 'pytorch:1',
  sharing: 'none',
  supervision: 'never',
  host: {},
  environment: { SEED: '1' },
};

function podOf(change: Partial<ClusterOrder>, changed: Partial<ManifestStyle>) {
  const manifest = jobManifest({ ...order, ...change }, 'train-1', { ...style, ...changed });
  expect(kubernetesErrors(manifest)).toEqual([]);
  const { spec, metadata } = Object(manifest).spec.template;
  const [{ resources, command, env }] = spec.containers;
  return { ...spec, annotations: metadata.annotations, ...resources, command, env };
}

/** The text as a container gets it, by the rules of Kubernetes; no variable is known. */
function expanded(text: string): string {
  return text.replaceAll(/\$\$|\$\([^)]*\)/g, (found) => (found === '$$' ? '$' : '(replaced)'));
}

describe('a job of Kubernetes', () => {
  it('asks for memory of a GPU as HAMi, KAI or a plain cluster reads it, by the published schema', () => {
    expect(podOf({}, { sharing: 'hami' }).limits).toEqual({
      'nvidia.com/gpu': '1',
      'nvidia.com/gpumem': '30720',
    });
    expect(podOf({ gpus: 2 }, { sharing: 'kai' })).toMatchObject({
      schedulerName: 'kai-scheduler',
      annotations: { 'gpu-memory': '30720', 'gpu-fraction-num-devices': '2' },
      limits: {},
    });
    expect(podOf({ gpus: 4 }, {}).limits).toEqual({ 'nvidia.com/gpu': '4' });
    expect(podOf({ gpus: 0 }, { sharing: 'hami' }).limits).toEqual({ memory: '30720Mi' });
    const broken = { ...Object(jobManifest(order, 'x', style)), sepc: {} };
    expect(kubernetesErrors(broken)).toEqual(['$: there is no sepc']);
  });

  it('requests host memory and processors: stated, else by a rule, and never as a limit', () => {
    expect(podOf({ gpus: 2 }, { sharing: 'hami' }).requests).toMatchObject({
      cpu: '4',
      memory: '21504Mi',
    });
    const host = { memoryBytes: 64 * GiB, cpus: 16 };
    const { requests, limits } = podOf({}, { host });
    expect(requests).toMatchObject({ cpu: '16', memory: '65536Mi' });
    expect(Object.keys(limits)).toEqual(['nvidia.com/gpu']);
    expect(podOf({ gpus: 0 }, {}).requests).toEqual({ memory: '30720Mi' });
  });

  it.each(['hami', 'kai', 'none'] as const)(
    'asks %s for whole GPUs where nothing is known',
    (way) => {
      const pod = podOf({ needBytes: 'unknown' }, { sharing: way });
      expect([pod.limits, pod.annotations]).toEqual([{ 'nvidia.com/gpu': '1' }, {}]);
    },
  );

  it('runs once, as the exporter knows it, with a limit only where a GPU is shared', () => {
    const variables = [
      { name: 'SEED', value: '1' },
      { name: 'PLIMSOLL_JOB_ENGINE', value: 'kubernetes' },
      { name: 'PLIMSOLL_JOB_ID', value: 'train-1' },
      { name: 'PLIMSOLL_JOB_NAME', value: 'train.py' },
    ];
    expect(podOf({}, {})).toMatchObject({ restartPolicy: 'Never', env: variables });
    const limit = { name: 'PLIMSOLL_MEMORY_BYTES', value: String(30 * GiB - 500 * MiB) };
    expect(podOf({}, { sharing: 'hami' }).env).toEqual([...variables, limit]);
  });

  it('runs under the supervisor where the image has it, always or never', () => {
    const command = ['python', 't.py', '{batch_size}', '$(HOME) $HOME'];
    const as = (supervision: ManifestStyle['supervision']) =>
      podOf({ command, batch: 8 }, { supervision }).command;
    expect(as('never')).toEqual(['python', 't.py', '{batch_size}', '$$(HOME) $$HOME']);
    expect(as('always').slice(0, 6)).toEqual([
      'plimsoll',
      'run',
      '--batch-size',
      '8',
      '--',
      'python',
    ]);
    const [shell, option, written] = as('auto');
    const script = expanded(written);
    expect([shell, option]).toEqual(['sh', '-c']);
    expect(script).toContain('exec plimsoll run --batch-size 8 -- "$@"');
    expect(script).toContain('exit 127');
    expect(expanded(podOf({}, { supervision: 'auto' }).command[2])).toMatch(/; exec "\$@"$/);
  });

  it('hands texts over as they are, dollar signs included', () => {
    const text = fc.string({ unit: fc.constantFrom('$', '(', ')', 'A', ' ') });
    fc.assert(
      fc.property(text, text, (argument, secret) => {
        const { command, env } = podOf(
          { command: ['echo', argument] },
          { environment: { S: secret } },
        );
        expect(expanded(command.at(-1))).toBe(argument);
        const found = env.find(({ name }: { readonly name: string }) => name === 'S');
        expect(expanded(found.value)).toBe(secret);
      }),
    );
  });

  it('has a name that Kubernetes takes, whatever it is called', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (name) => {
        expect(jobName(name, '3f2a9c')).toMatch(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);
      }),
    );
  });
});

describe('jobs as Kubernetes describes them', () => {
  const manifest = Object(jobManifest(order, 'train-1', { ...style, sharing: 'hami' }));
  const job = (change: object, annotations = {}) => ({
    ...manifest,
    metadata: {
      ...manifest.metadata,
      creationTimestamp: '2026-11-16T10:00:00Z',
      annotations: { ...manifest.metadata.annotations, ...annotations },
    },
    ...change,
  });
  const pod = (status: object) => ({
    kind: 'Pod',
    metadata: { name: 'train-1-abc', labels: { 'plimsoll.dev/job': 'train-1' } },
    spec: { nodeName: 'n1' },
    status,
  });
  const ended = (type: string) => ({ status: { conditions: [{ type, status: 'True' }] } });
  const exit = (exitCode: number, reason: string) => ({
    phase: 'Failed',
    containerStatuses: [{ state: { terminated: { exitCode, reason } } }],
  });
  const unschedulable = {
    phase: 'Pending',
    conditions: [
      { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/3 nodes' },
    ],
  };

  it.each([
    [job({}), pod(unschedulable), 'waiting', 'Unschedulable: 0/3 nodes'],
    [job({}), pod({ phase: 'Running' }), 'running', ''],
    [job(ended('Complete')), pod({ phase: 'Succeeded' }), 'succeeded', ''],
    [
      job(ended('Failed')),
      pod(exit(137, 'OOMKilled')),
      'failed',
      'OOMKilled: host memory, exit code 137',
    ],
    [job(ended('Failed')), pod(exit(3, 'Error')), 'failed', 'exit code 3'],
    [job(ended('Failed'), { 'plimsoll.dev/cancelled': 'true' }), undefined, 'cancelled', ''],
    [job({ spec: { ...manifest.spec, suspend: true } }), undefined, 'waiting', 'suspended'],
  ])('%#', (one, itsPod, state, why) => {
    const [view] = jobViews([one, ...(itsPod === undefined ? [] : [itsPod])]);
    expect(view).toMatchObject({
      id: 'train-1',
      name: 'train.py',
      command: ['python', 'train.py'],
      state,
      why,
      gpus: 1,
      needBytes: 30 * GiB,
      nodes: itsPod === undefined ? '' : 'n1',
      attempts: [
        {
          reservedBytes: 30 * GiB,
          request: 'cpu=2 memory=10752Mi nvidia.com/gpu=1 nvidia.com/gpumem=30720',
          outOfMemory: why.startsWith('OOM'),
        },
      ],
    });
  });

  it('can be anything: each part that is missing or odd is unknown', () => {
    const kind = fc.constantFrom('Job', 'Pod');
    const broken = fc.record({
      kind,
      metadata: fc.oneof(
        fc.jsonValue(),
        fc.record({ name: fc.jsonValue(), labels: fc.jsonValue(), annotations: fc.jsonValue() }),
      ),
      spec: fc.jsonValue(),
      status: fc.oneof(
        fc.jsonValue(),
        fc.record({ conditions: fc.jsonValue(), containerStatuses: fc.jsonValue() }),
      ),
    });
    fc.assert(
      fc.property(fc.array(fc.oneof(broken, fc.jsonValue())), (objects) => {
        for (const one of jobViews(objects)) expect(one.attempts.length).toBeGreaterThan(0);
      }),
    );
    expect(() => readObjects(Buffer.from('{}'))).toThrow(/no list of objects/);
  });
});

describe('the engine kubernetes', () => {
  const kubectlStream = kubectlStreamHere({ PATH: '/nowhere' });
  const options = { ...style, namespace: 'ml', kubectlStream };

  it('says what is missing: an image, kubectl, such a job', async () => {
    const kubectl = kubectlHere({ PATH: '/nowhere' });
    const without = kubernetesEngine({ ...options, image: undefined, kubectl });
    await expect(without.preview(order)).rejects.toMatchObject({ code: 'no-image' });
    const engine = kubernetesEngine({ ...options, kubectl });
    await expect(engine.submit(order)).rejects.toMatchObject({ code: 'no-kubectl' });
    await expect(engine.job('a,b')).rejects.toMatchObject({ code: 'unknown-job' });
    await expect(engine.job('train-1')).rejects.toMatchObject({ code: 'no-kubectl' });
    const { signal } = new AbortController();
    await expect(kubectlStream(['logs'], () => {}, signal)).rejects.toMatchObject({
      code: 'no-kubectl',
    });
  });
});

/** A line as a node keeps it; many have the same time. */
interface Line {
  readonly nanoseconds: number;
  readonly text: string;
}

const line = fc.record({
  nanoseconds: fc.integer({ min: 0, max: 3_000_000_000 }).map((at) => at - (at % 250_000_000)),
  text: fc.string({ unit: fc.constantFrom('a', ' ', 'ö', '\r', '2026-11-16T10:00:00Z ') }),
});

function stampOf({ nanoseconds }: Line): string {
  const at = new Date(Date.UTC(2026, 10, 16, 10) + Math.floor(nanoseconds / 1e9) * 1000);
  const fraction = String(nanoseconds % 1e9).padStart(9, '0');
  return at.toISOString().replace(/\.\d+Z$/, `.${fraction}Z`);
}

/** Returns the output of kubectl: it begins at the named second, not the nanosecond. */
function printed(lines: readonly Line[], since: string): Buffer {
  const second = since.slice(0, 19);
  const all = lines.map((one) => `${stampOf(one)} ${one.text}\n`);
  return Buffer.from(all.filter((text) => text.slice(0, 19) >= second).join(''));
}

function taking(lines: readonly Line[], cuts: readonly number[], pieceBytes: number): string {
  const written: Buffer[] = [];
  const log = new StampedLog((bytes) => written.push(bytes));
  for (const cut of [...cuts, Number.POSITIVE_INFINITY]) {
    log.reconnect();
    const bytes = printed(lines, log.since).subarray(0, cut);
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      log.take(bytes.subarray(at, at + pieceBytes));
    }
  }
  return Buffer.concat(written).toString('utf8');
}

describe('a log with times', () => {
  it('is written once, without them, in pieces of any size and over connections that break', () => {
    fc.assert(
      fc.property(
        fc.array(line, { maxLength: 12 }),
        fc.array(fc.nat(300), { maxLength: 4 }),
        fc.integer({ min: 1, max: 90 }),
        (drawn, cuts, pieceBytes) => {
          const lines = drawn.toSorted((one, other) => one.nanoseconds - other.nanoseconds);
          const text = lines.map((one) => `${one.text}\n`).join('');
          expect(taking(lines, cuts, pieceBytes)).toBe(text);
        },
      ),
    );
  });

  it('passes on what has no time, and goes on after it', () => {
    const written: string[] = [];
    const log = new StampedLog((bytes) => written.push(bytes.toString('utf8')));
    const words = 'failed to watch the log\n\n';
    log.take(Buffer.from(`${words}2026-11-16T10:00:00.5Z step 1\n${words}`));
    expect(written.join('')).toBe(`${words}step 1\n${words}`);
    expect(log.since).toBe('2026-11-16T10:00:00.5Z');
  });
});
