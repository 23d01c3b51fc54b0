import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import { isTrustedOwner } from './config-file.js';
import { type LoadOptions, loadSettings } from './load.js';
import { limits } from './schema.js';
import { defaultSettings } from './settings.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-config-'));
  // The search for a configuration ends here, whatever lies above.
  mkdirSync(join(folder, '.git'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const write = (text: string, name = 'plimsoll.config.json') =>
  writeFileSync(join(folder, name), text);
const load = (options: Partial<LoadOptions> = {}) =>
  loadSettings({ folder, environment: {}, ...options });

describe('loadSettings', () => {
  it('has a default for everything', async () => {
    expect(await load()).toEqual(defaultSettings);
  });

  it('takes option over variable over file over default', async () => {
    write('{"intervalSeconds": 1, "loadLinePercent": 80, "alerts": {"gpuWarningPercent": 50}}');
    const environment = { PLIMSOLL_INTERVAL_SECONDS: '2', PLIMSOLL_LOAD_LINE_PERCENT: '70' };
    const settings = await load({ environment, options: { intervalSeconds: 3 } });
    expect(settings.intervalSeconds).toBe(3);
    expect(settings.loadLinePercent).toBe(70);
    expect(settings.alerts.gpuWarningPercent).toBe(50);
    expect(settings.alerts.gpuCriticalPercent).toBe(defaultSettings.alerts.gpuCriticalPercent);
  });

  it('puts the keys of a section together from file and variables', async () => {
    write('{"training": {"batch": 32, "precision": "amp-bf16"}, "gc": {"threshold0": 700}}');
    const environment = {
      PLIMSOLL_TRAINING_MAX_BATCH: '512',
      PLIMSOLL_GC_INTERVAL_SECONDS: '60',
      PLIMSOLL_BUFFERS_COMPRESS: 'true',
      PLIMSOLL_MEMORY_LIMIT_BYTES: '8589934592',
    };
    const { training, gc, buffers, loading, memoryLimitBytes } = await load({ environment });
    expect(training).toEqual({ batch: 32, precision: 'amp-bf16', maxBatch: 512 });
    expect(gc).toEqual({ threshold0: 700, intervalSeconds: 60 });
    expect(buffers).toEqual({ compress: true });
    expect(loading).toEqual({});
    expect(memoryLimitBytes).toBe(8_589_934_592);
  });

  it.each([
    [
      '{"training": {"batch": 4, "minBatch": 8}}',
      'training.minBatch (8) is above training.batch (4).',
    ],
    [
      '{"training": {"minBatch": 8, "maxBatch": 4}}',
      'training.minBatch (8) is above training.maxBatch (4).',
    ],
    ['{"training": {"batch": 2.5}}', 'plimsoll.config.json:1:24: training.batch is 2.5.'],
    ['{"gc": {"treshold0": 700}}', 'plimsoll.config.json:1:9: there is no key "gc.treshold0".'],
  ])('refuses %s', async (text, fact) => {
    write(text);
    await expect(load()).rejects.toMatchObject({ fact });
  });

  it('finds the file in a folder above, up to the one with .git', async () => {
    write('{"intervalSeconds": 1}');
    const deep = join(folder, 'a/b');
    mkdirSync(deep, { recursive: true });
    expect((await load({ folder: deep })).intervalSeconds).toBe(1);
    mkdirSync(join(folder, 'a/.git'));
    expect((await load({ folder: deep })).intervalSeconds).toBe(0.1);
  });

  it('takes --config over PLIMSOLL_CONFIG over the one it would find', async () => {
    write('{"intervalSeconds": 1}');
    write('{"intervalSeconds": 2}', 'two.json');
    write('{"intervalSeconds": 3}', 'three.json');
    const environment = { PLIMSOLL_CONFIG: 'two.json' };
    expect((await load({ environment })).intervalSeconds).toBe(2);
    expect((await load({ environment, configPath: 'three.json' })).intervalSeconds).toBe(3);
  });

  it('takes paths in the file from where the file is', async () => {
    write('{"simulate": "traces/a.json", "alerts": {"deliver": {"log": "alerts.log"}}}');
    const deep = join(folder, 'deep');
    mkdirSync(deep);
    const settings = await load({ folder: deep });
    expect(settings.simulate).toBe(join(folder, 'traces/a.json'));
    expect(settings.deliver.log).toBe(join(folder, 'alerts.log'));
    write('{"simulate": "leak"}');
    expect((await load()).simulate).toBe('leak');
  });

  it.each([
    [
      '{\n  "intervalSecond": 1\n}',
      'plimsoll.config.json:2:3: there is no key "intervalSecond". Did you mean "intervalSeconds"?',
    ],
    [
      '{\n  "alerts": {"gpuWarningPercent": "80"}\n}',
      'plimsoll.config.json:2:35: alerts.gpuWarningPercent is "80". It takes a number from 1 to 100.',
    ],
    ['{"devices": ["0", 1]}', 'plimsoll.config.json:1:19: devices.1 is 1. It takes a text'],
    ['{"intervalSeconds": 1,}', 'plimsoll.config.json:1:23: this is not JSON: a key'],
    ['[]', 'plimsoll.config.json:1:1: the whole is []. It takes an object with the keys $schema'],
    [
      '{"gpus": [{"name": "Ours"}]}',
      'plimsoll.config.json:1:11: gpus.0.capacityBytes is undefined. It takes a whole number from 1 to',
    ],
    [
      '{"gpus": [{"name": "A", "capacityBytes": 8e9, "capability": "new"}]}',
      'gpus.0.capability is "new". It takes a text of the form ',
    ],
    ['{"gpus": [{"nam": "A"}]}', 'gpus.0.name is undefined. It takes a text that is not empty.'],
    ['{"gpus": ["A"]}', 'gpus.0 is "A". It takes an object with the keys name, aliases, vendor'],
    ['{"gpus": []}', 'gpus is []. It takes a list of 1 to 256 objects with the keys name, aliases'],
    ['{"alerts": {"colour": 1}}', 'there is no key "alerts.colour". The keys are: memoryWarning'],
  ])('names the place in %s', async (text, message) => {
    write(text);
    const failure = await load().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(Failure);
    expect(failure).toMatchObject({ kind: 'input', message: expect.stringContaining(message) });
  });

  it('reads cards from the file or from a variable', async () => {
    const gpus = [{ name: 'Ours', capacityBytes: 17_179_869_184, capability: '8.6' }];
    write(JSON.stringify({ gpus }));
    expect((await load()).gpus).toEqual(gpus);
    const other = [{ name: 'Other', capacityBytes: 1 }];
    const environment = { PLIMSOLL_GPUS: JSON.stringify(other) };
    expect((await load({ environment })).gpus).toEqual(other);
    await expect(load({ environment: { PLIMSOLL_GPUS: '[{"name": ""}]' } })).rejects.toThrow(
      /^the variable PLIMSOLL_GPUS: gpus\.0\.name is ""/,
    );
  });

  it('sees a warning above its critical limit, wherever each comes from', async () => {
    write('{"alerts": {"gpuCriticalPercent": 60}}');
    const environment = { PLIMSOLL_ALERTS_GPU_WARNING_PERCENT: '70' };
    await expect(load({ environment })).rejects.toThrow(
      /gpuWarningPercent \(70\) is above alerts\.gpuCriticalPercent \(60\)/,
    );
  });

  it('refuses a file that is missing, a folder, too large, or not UTF-8', async () => {
    await expect(load({ configPath: 'none.json' })).rejects.toMatchObject({
      code: 'unreadable-config-file',
    });
    mkdirSync(join(folder, 'sub'));
    await expect(load({ configPath: 'sub' })).rejects.toThrow(/is not a file/);
    write('', 'large.json');
    truncateSync(join(folder, 'large.json'), limits.fileBytes + 1);
    await expect(load({ configPath: 'large.json' })).rejects.toThrow(/262145 bytes/);
    writeFileSync(join(folder, 'latin.json'), Buffer.from([0x7b, 0xff, 0x7d]));
    await expect(load({ configPath: 'latin.json' })).rejects.toThrow(/not UTF-8/);
  });

  it('trusts a file it found only of the user or of root', () => {
    expect(isTrustedOwner(1000, 1000)).toBe(true);
    expect(isTrustedOwner(0, 1000)).toBe(true);
    expect(isTrustedOwner(1001, 1000)).toBe(false);
    expect(isTrustedOwner(1000, 0)).toBe(false);
  });

  it('answers settings or a Failure, whatever is in the file', async () => {
    const keys = [
      'intervalSeconds',
      'devices',
      'gpus',
      'alerts',
      'simulate',
      '$schema',
      '__proto__',
      'x',
    ];
    const almost = fc
      .dictionary(fc.constantFrom(...keys), fc.jsonValue())
      .map((value) => JSON.stringify(value));
    await fc.assert(
      fc.asyncProperty(fc.oneof(almost, fc.json(), fc.string()), async (text) => {
        write(text);
        const result = await load().catch((error: unknown) => error);
        expect(result instanceof Error ? result instanceof Failure : true).toBe(true);
      }),
    );
  });
});
