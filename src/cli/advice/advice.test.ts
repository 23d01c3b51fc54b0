import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import { type Advice, bytesSaved, inOrder, type Saving } from './advice.js';
import { deviceAdvice, type SeenDevice } from './device-advice.js';
import { environmentAdvice } from './machine-advice.js';
import { type NodeProgram, nodeAdvice } from './node-advice.js';
import { loadingSettings } from './training-answer.js';

const advice = (code: string, saves: Saving): Advice => ({ code, fact: '', steps: [], saves });
const card = { id: 'gpu:0', totalBytes: 24 * GiB, provenance: 'measured' } as const;

const quiet: SeenDevice = {
  id: 'gpu:0',
  kind: 'gpu',
  name: 'card',
  source: 'nvml',
  provenance: 'measured',
  uuid: 'unknown',
  driver: 'unknown',
  totalBytes: 24 * GiB,
  usedBytes: 8 * GiB,
  busiestPercent: 50,
  watchedSeconds: 1,
  processes: [{ pid: 7, name: 'python', usedBytes: 6 * GiB }],
  leak: {
    found: false,
    bytesPerSecond: 0,
    confidence: 1,
    grownBytes: 0,
    sinceSeconds: 'unknown',
    watchSeconds: 0,
    reason: '',
  },
  processLeaks: new Map(),
  cachedBytes: 'unknown',
  stalledPercent: 'unknown',
  swapUsedBytes: 'unknown',
};
const codes = (device: Partial<SeenDevice>) =>
  deviceAdvice({ ...quiet, ...device }, 80).map(({ code }) => code);

describe('inOrder', () => {
  it('puts what saves most first, by its share of the memory or the time', () => {
    const time: Saving = {
      kind: 'time',
      lowShare: 0.1,
      highShare: 0.4,
      source: 'measured',
      where: '',
    };
    const ordered = inOrder([
      advice('unknown', { kind: 'unknown' }),
      advice('small', bytesSaved(GiB, card)),
      advice('no share', bytesSaved(GiB, { ...card, totalBytes: 'unknown' })),
      advice('half', bytesSaved(12 * GiB, card)),
      advice('time', time),
    ]);
    expect(ordered.map(({ code }) => code)).toEqual([
      'half',
      'time',
      'small',
      'no share',
      'unknown',
    ]);
  });

  it('keeps the provenance of what was seen, and says what was estimated', () => {
    expect(bytesSaved(1.4, { ...card, provenance: 'simulated' })).toMatchObject({
      bytes: 1,
      source: 'simulated',
    });
    expect(bytesSaved(GiB, card, 'estimated')).toMatchObject({ source: 'estimated' });
  });
});

describe('deviceAdvice', () => {
  it('has nothing to say of a busy card with room', () => {
    expect(codes({})).toEqual([]);
  });

  it('names who holds a card on which nothing runs, with its bytes', () => {
    const [found] = deviceAdvice({ ...quiet, busiestPercent: 0 }, 80);
    expect(found).toMatchObject({
      code: 'idle-process',
      fact: 'python (7) holds 6.0 GiB of gpu:0, and nothing ran there for 1.0 s.',
      saves: { bytes: 6 * GiB, source: 'measured', share: 0.25 },
    });
    expect(found?.steps[1]).toMatch(/^kill 7 {2}#/);
    // What cannot be read is no reason to end a program.
    expect(codes({ busiestPercent: 'unknown' })).toEqual([]);
    expect(codes({ busiestPercent: 0, kind: 'host' })).toEqual([]);
    const small = [{ pid: 7, name: 'python', usedBytes: MiB }];
    expect(codes({ busiestPercent: 0, processes: small })).toEqual([]);
  });

  it('tells a leak, and what it would take within an hour, at most what is left', () => {
    const leak = { ...quiet.leak, found: true, bytesPerSecond: 10 * MiB };
    const [found] = deviceAdvice({ ...quiet, processLeaks: new Map([[7, leak]]) }, 80);
    expect(found).toMatchObject({ code: 'leak', saves: { bytes: 16 * GiB, source: 'estimated' } });
    expect(found?.steps[0]).toBe('plimsoll leak --check --pid 7 --duration 60');
  });

  it('asks to watch longer where growth may be a start', () => {
    const leak = {
      ...quiet.leak,
      found: 'unknown',
      bytesPerSecond: 10 * MiB,
      watchSeconds: 24,
    } as const;
    const [found] = deviceAdvice({ ...quiet, leak }, 80);
    expect(found?.steps).toEqual(['plimsoll optimize --mode quick --watch 25']);
    expect(codes({ leak: { ...leak, bytesPerSecond: MiB - 1 } })).toEqual([]);
  });

  it('speaks of a device above its warning line, of caches, and of stalls', () => {
    expect(codes({ usedBytes: 20 * GiB })).toEqual(['device-full']);
    expect(codes({ cachedBytes: GiB })).toEqual(['allocator-cache']);
    const [stalls] = deviceAdvice({ ...quiet, stalledPercent: 12, swapUsedBytes: GiB }, 80);
    expect(stalls?.fact).toBe(
      'Programs waited for host memory in 12 % of the last 10 s, and 1.0 GiB are swapped out.',
    );
    expect(codes({ totalBytes: 'unknown', usedBytes: 'unknown', processes: 'unknown' })).toEqual(
      [],
    );
  });
});

describe('environmentAdvice', () => {
  it('takes the measured factor for the share of time that is saved', () => {
    const finding = { reason: 'R.', fix: 'unset X', severity: 'required' } as const;
    const [blocking, other, rest] = environmentAdvice([
      { ...finding, name: 'CUDA_LAUNCH_BLOCKING', kind: 'debug-setting', value: '1' },
      { ...finding, name: 'NVIDIA_TF32_OVERRIDE', kind: 'debug-setting', value: '0' },
      { ...finding, name: 'OMP_NUM_THREADS', kind: 'missing', severity: 'advice' },
    ]);
    expect(blocking?.saves).toMatchObject({ kind: 'time', source: 'measured' });
    expect(blocking?.saves.kind === 'time' && blocking.saves.highShare).toBeCloseTo(0.524, 3);
    expect(other?.saves).toEqual({ kind: 'unknown' });
    expect(rest).toMatchObject({
      code: 'environment',
      fact: expect.stringContaining('OMP_NUM_THREADS'),
    });
  });
});

describe('nodeAdvice', () => {
  const program: NodeProgram = {
    who: 'node (7)',
    residentBytes: GiB,
    heapLimitBytes: 4 * GiB,
    heapStated: 'no',
    isYoungStated: true,
  };
  const steps = (part: Partial<NodeProgram>, host: number) =>
    nodeAdvice([{ ...program, ...part }], host).flatMap((one) => one.steps);
  const variable = (option: string) => [`export NODE_OPTIONS="$NODE_OPTIONS ${option}"`];

  it('ends a heap before the host does', () => {
    expect(steps({}, 2 * GiB)).toEqual(variable('--max-old-space-size=1536'));
    expect(steps({ heapStated: 'command' }, 2 * GiB)).toEqual([
      'node --max-old-space-size=1536 ... (in its command)',
    ]);
  });

  it('raises one that is nearly full, where the host has room', () => {
    expect(steps({ residentBytes: 3.5 * GiB }, 16 * GiB)).toEqual(
      variable('--max-old-space-size=8192'),
    );
    expect(steps({ residentBytes: 3.5 * GiB }, 5 * GiB)).toEqual([]);
    expect(steps({ residentBytes: 3 * GiB }, 16 * GiB)).toEqual([]);
  });

  it('raises the default of a program that is not started yet on a large host, not what it was told', () => {
    expect(steps({ residentBytes: 0 }, 64 * GiB)).toEqual(variable('--max-old-space-size=49152'));
    expect(steps({ residentBytes: 0, heapStated: 'variable' }, 64 * GiB)).toEqual([]);
  });

  it('gives new objects more memory, in one advice for all programs, where the host has room', () => {
    const young = { ...program, isYoungStated: false };
    const [found, ...rest] = nodeAdvice([young, { ...young, who: 'node (8)' }, program], 16 * GiB);
    expect(found).toMatchObject({
      code: 'node-young-heap',
      steps: variable('--max-semi-space-size=64'),
    });
    expect(found?.fact).toMatch(/^node \(7\), node \(8\): /);
    expect(rest).toEqual([]);
    expect(nodeAdvice([{ ...young, heapLimitBytes: GiB / 2 }], 2 * GiB)).not.toContainEqual(
      expect.objectContaining({ code: 'node-young-heap' }),
    );
  });
});

describe('loadingSettings', () => {
  const facts = { cores: 8, hostFreeBytes: 64 * GiB, gpus: 1, fixed: {} };

  it('has one worker for each core but one, while the host has room for them', () => {
    expect(loadingSettings(facts)).toMatchObject({ workers: 7, pinMemory: true, prefetch: 2 });
    expect(loadingSettings({ ...facts, hostFreeBytes: 2 * GiB }).workers).toBe(2);
    expect(loadingSettings({ ...facts, cores: 1 })).toMatchObject({
      workers: 0,
      prefetch: 0,
      persistentWorkers: false,
    });
  });

  it('keeps to what the configuration fixes', () => {
    const fixed = { workers: 4, pinMemory: false, persistentWorkers: false, prefetch: 3 };
    expect(loadingSettings({ ...facts, fixed })).toMatchObject(fixed);
  });
});
