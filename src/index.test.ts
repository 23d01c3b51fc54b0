import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as batches from './entries/batches.js';
import * as buffers from './entries/buffers.js';
import * as estimates from './entries/estimate.js';
import * as jobs from './entries/jobs.js';
import * as plans from './entries/plan.js';
import * as runs from './entries/run.js';
import * as snapshots from './entries/snapshot.js';
import * as watches from './entries/watch.js';
import { Failure } from './failure.js';
import * as core from './index.js';
import { discoverDevices, type Sample, watch } from './index.js';

describe('the library', () => {
  it('watches the memory of this machine for real', async () => {
    const discovery = await discoverDevices();
    const host = discovery.devices.filter(({ info }) => info.id === 'host');
    expect(host).toHaveLength(1);
    const samples: Sample[] = [];
    const watching = watch({
      discovery,
      devices: host,
      intervalSeconds: 0.02,
      processIntervalSeconds: 0.02,
    });
    for await (const event of watching) {
      if (event.type === 'sample') samples.push(event.sample);
      if (watching.states()[0]?.processes !== 'unknown' && samples.length >= 3) break;
    }
    discovery.close();
    const [first] = samples;
    expect(first?.totalBytes).toBeGreaterThan(0);
    expect(first?.usedBytes).toBeGreaterThan(0);
    const times = samples.map(({ atSeconds }) => atSeconds);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(watching.states()[0]?.history.statistics().samples).toBeGreaterThanOrEqual(3);
  });
});

/** Functions that take what other functions of the library made, as their types say; nothing is checked twice. */
const typed = [
  'Failure DeviceLost isKnown isOutOfMemoryError createScanner createDiagnosis createForecaster watchGcPauses',
  'hostMemoryPercent findSavings superviseRun planMaxBatch planSettings bytesToReserve fitOf sureBytes asPython',
  'bitsAndBytesArguments dotenvLines shellLines Ledger WaitingList admit place inOrder turnOf judgeFit largestOffer',
  'correctEstimate expectedSeconds measuredRun degradedBy changeableSettingsOf explainWaiting loadLineOf workloadKey',
  'readJobVariables environmentForJobs reasonWords needReasonWords waitingReasonWords',
].flatMap((line) => line.split(' '));
/** Valid arguments of each function; the test replaces them one by one by invalid ones. */
const suiting: Readonly<Record<string, readonly unknown[]>> = {
  adaptiveBatches: [[1], { batchSize: 1 }],
  deviceMemoryPercent: [{}],
  recoveringStep: [() => 1, {}],
  BufferStore: [{}],
  ArrayBufferPool: [{}],
  discoverDevices: [{}],
  selectDevices: [[], []],
  findGpu: ['h100', []],
  homeFolder: [{}, '/srv/me'],
  answerMachine: [{}],
  runCommand: [{ command: ['true'] }],
  readModel: ['gpt2'],
  answerEstimate: [{}, core.answerMachine()],
  answerPlan: [{}, core.answerMachine()],
  answerPlanWithin: [{}, { capacityBytes: 1, mayChange: [] }, core.answerMachine()],
  readSnapshot: ['snapshot.pickle', () => {}],
  parseSnapshot: [new Uint8Array()],
  analyseSnapshot: [{ devices: [] }, {}],
  snapshotDocument: [{ figures: {} }, { top: 1 }],
  formatBytes: [1],
  formatSeconds: [1],
  parseBytes: ['1'],
  parseSeconds: ['1'],
  watch: [{}],
  estimate: [{}, core.answerMachine()],
  choosePreset: [{ forTraining: true }],
  loadQuantization: ['home', 'gpt2'],
  saveQuantization: ['home', {}],
  checkEnvironment: [{}, {}],
  environmentSettings: [{}],
  alertLine: [{}],
  createHistory: [{}],
  createVirtualClock: [{}],
  deliverToCallback: [() => {}],
  deliverToCommand: [['true'], {}],
  deliverToLog: [{ write: () => {} }],
  deliverToWebhook: ['https://example.org', {}],
  readRecordedTrace: ['trace.json', 'gpu:0'],
  replay: ['trace.json', 'gpu:0'],
  replayTrace: [{ rows: [] }],
  recogniseLine: ['Killed'],
  RunFolder: ['home', 'id'],
  openJobStore: ['jobs.sqlite'],
  makeHome: ['home'],
  localEngine: [{}],
  openDaemon: [{}],
  openServer: [{}],
  openService: [{}],
};

describe('every function that people call', () => {
  const modules = [core, batches, buffers, estimates, jobs, plans, runs, snapshots, watches];
  const functions = new Map(
    modules.flatMap((module) =>
      Object.entries(module).filter(
        (entry): entry is [string, Function] => typeof entry[1] === 'function',
      ),
    ),
  );
  const call = async (name: string, given: readonly unknown[]): Promise<unknown> => {
    const made = functions.get(name);
    if (made === undefined) return undefined;
    try {
      const isClass = Function.prototype.toString.call(made).startsWith('class');
      return await (isClass
        ? Reflect.construct(made, given)
        : Reflect.apply(made, undefined, given));
    } catch (error) {
      return error;
    }
  };
  const refused = (field?: string) =>
    expect.objectContaining({
      kind: 'input',
      fact: expect.stringMatching(/./),
      next: expect.stringMatching(/./),
      ...(field !== undefined && { code: 'bad-argument', field }),
    });

  it('is in one of the two lists', () => {
    expect([...functions.keys()].toSorted()).toEqual(
      [...Object.keys(suiting), ...typed].toSorted(),
    );
  });

  it.each(Object.entries(suiting))('refuses what it has no use for: %s', async (name, given) => {
    for (const [place] of given.entries()) {
      for (const wrong of [5n, Symbol('wrong')]) {
        const found = await call(name, given.with(place, wrong));
        expect([place, found]).toEqual([place, refused()]);
        expect(found).toBeInstanceOf(Failure);
      }
    }
  });

  it.each([
    ['watch', [{ thresholds: { banana: 1 } }], 'banana'],
    ['watch', [{ thresholds: { enabled: { banana: true } } }], 'banana'],
    ['watch', [{ thresholds: { enabled: { leak: 'yes' } } }], 'leak'],
    ['watch', [{ interval: 1 }], 'interval'],
    ['watch', [{ onAlert: 5 }], 'onAlert'],
    ['adaptiveBatches', [5, { batchSize: 1 }], 'source'],
    ['adaptiveBatches', [[1], { batchSise: 8 }], 'batchSise'],
    ['recoveringStep', [5], 'run'],
    ['recoveringStep', [() => 1, { microbatches: 4 }], 'microbatches'],
    ['runCommand', [{ command: ['true'], batch: 4 }], 'batch'],
    ['runCommand', [{ command: ['true'], batchSize: -1 }], 'batchSize'],
    ['BufferStore', [{ limits: '1GiB' }], 'limits'],
    ['discoverDevices', [{ simulate: { scenarios: 'leak' } }], 'scenarios'],
  ])('names what is wrong: %s of %o', async (name, given, field) => {
    expect(await call(name, given)).toEqual(refused(field));
  });

  it('refuses levels of warning above those that are critical', async () => {
    for (const [thresholds, words] of [
      [{ gpuWarningPercent: 96 }, 'gpuWarningPercent (96) is above gpuCriticalPercent (95).'],
      [{ memoryWarningPercent: 80, memoryCriticalPercent: 70 }, 'memoryWarningPercent (80)'],
      [{ riskWarning: 'critical', riskCritical: 'high' }, 'riskWarning (critical)'],
    ] as const) {
      const found = await call('watch', [{ thresholds }]);
      expect(found).toEqual(refused());
      expect(String(found)).toContain(words);
    }
  });
});

describe('a program that uses the library', () => {
  let folder = '';
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'plimsoll-library-'));
    await build({
      entryPoints: [fileURLToPath(new URL('entries/watch.ts', import.meta.url))],
      outfile: join(folder, 'plimsoll.mjs'),
      bundle: true,
      platform: 'node',
      format: 'esm',
      external: ['koffi'],
    });
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  /** Resolves with the exit code and what it printed, when the program ends by itself. */
  async function run(program: string): Promise<{ code: number | null; printed: string }> {
    const path = join(folder, 'program.mjs');
    await writeFile(path, `import { watch, deliverToCommand } from './plimsoll.mjs';\n${program}`);
    const child = spawn(process.execPath, [path], { stdio: ['ignore', 'pipe', 'inherit'] });
    let printed = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
    const code = await new Promise<number | null>((resolve) => {
      child.once('close', resolve);
    });
    return { code, printed };
  }

  it('ends when it leaves the loop, though an alert command still runs', async () => {
    const { code, printed } = await run(`
      const watching = watch({
        // Long: where the machine is busy, short ones would be late, and say so. The first sample is enough.
        intervalSeconds: 3600,
        thresholds: { memoryWarningPercent: 1, hysteresisPercent: 0 },
        deliver: [deliverToCommand(['sleep', '600'], { timeoutSeconds: 1000 })],
      });
      const seen = new Set();
      for await (const event of watching) {
        seen.add(event.type);
        if (seen.has('sample') && seen.has('alert')) break;
      }
      console.log([...seen].sort().join());`);
    expect(printed.trim()).toBe('alert,sample');
    expect(code).toBe(0);
  });

  it('ends when its signal aborts, and when the duration is over', async () => {
    const { code, printed } = await run(`
      const controller = new AbortController();
      let samples = 0;
      for await (const event of watch({ intervalSeconds: 0.01, signal: controller.signal })) {
        if (event.type === 'sample' && ++samples === 3) controller.abort();
      }
      for await (const event of watch({ intervalSeconds: 0.01, durationSeconds: 0.05 })) samples++;
      console.log(samples >= 4);`);
    expect(printed.trim()).toBe('true');
    expect(code).toBe(0);
  });
});
