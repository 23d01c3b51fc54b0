import {
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { answerKey, type PreparedAnswer } from './answer-key.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-key-'));
  mkdirSync(join(folder, 'model'));
  mkdirSync(packages(), { recursive: true });
  mkdirSync(join(folder, 'venv/bin'), { recursive: true });
  writeFileSync(join(folder, 'venv/bin/python'), '#!/bin/sh', { mode: 0o755 });
  write('model/config.json', '{"n_layer": 12}');
  write('model/model.safetensors', 'weights');
  write('model/model.safetensors.index.json', '{}');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const packages = () => join(folder, 'venv/lib/python3.11/site-packages');
const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
const python = () => ({ environment: { VIRTUAL_ENV: join(folder, 'venv') }, folder });
const of = (name: string, more: object = {}): PreparedAnswer => ({
  source: { kind: 'path', path: join(folder, name) },
  method: 'auto',
  ...more,
});
const key = (prepared: PreparedAnswer) => answerKey(prepared, python());

describe('answerKey', () => {
  it.each([
    'model',
    'model/config.json',
    'model/model.safetensors',
    'model/model.safetensors.index.json',
  ])('of %s stays while nothing changes, and changes with its config', async (name) => {
    const before = await key(of(name));
    expect(before).toMatch(/^[\da-f]{64}$/);
    expect(await key(of(name))).toBe(before);
    write('model/config.json', '{"n_layer": 24}');
    expect(await key(of(name))).not.toBe(before);
  });

  it('sees a change that keeps size and time, and a file put in its place', async () => {
    const config = join(folder, 'model/config.json');
    const { atime, mtime } = statSync(config);
    const before = await key(of('model/config.json'));
    write('model/config.json', '{"n_layer": 13}');
    utimesSync(config, atime, mtime);
    const changed = await key(of('model/config.json'));
    expect(changed).not.toBe(before);
    write('model/new.json', '{"n_layer": 14}');
    utimesSync(join(folder, 'model/new.json'), atime, mtime);
    renameSync(join(folder, 'model/new.json'), config);
    expect(await key(of('model/config.json'))).not.toBe(changed);
  });

  it('goes by the weights and what lies beside them, but not for a config alone', async () => {
    const names = ['model', 'model/config.json', 'model/model.safetensors'] as const;
    const keys = () => Promise.all(names.map((name) => key(of(name))));
    const before = await keys();
    write('model/notes.txt', 'not of the model');
    expect(await keys()).toEqual(before);
    write('model/model.safetensors', 'more weights');
    const [ofFolder, ofConfig, ofWeights] = await keys();
    expect(ofConfig).toBe(before[1]);
    expect(ofFolder).not.toBe(before[0]);
    expect(ofWeights).not.toBe(before[2]);
    write('model/other.safetensors', '');
    expect(await key(of('model'))).not.toBe(ofFolder);
  });

  it('follows links, as the caches of models are made of them', async () => {
    symlinkSync(join(folder, 'model/config.json'), join(folder, 'link.json'));
    const before = await key(of('link.json'));
    write('model/config.json', '{"n_layer": 48}');
    expect(await key(of('link.json'))).not.toBe(before);
  });

  it('changes with what was asked for, and with the card', async () => {
    const asked = { workload: { batch: 1 }, gpu: { name: 'one' }, notes: ['this is for gpu:0'] };
    const others = [
      { ...asked, workload: { batch: 2 } },
      { ...asked, gpu: { name: 'two' } },
      { ...asked, notes: ['this is for gpu:1'] },
      { ...asked, method: 'trace' },
    ];
    const keys = [asked, ...others].map((more) => key(of('model', more)));
    expect(new Set(await Promise.all(keys)).size).toBe(keys.length);
  });

  it('changes with the packages of Python, whichever way Python is found', async () => {
    const vision = { source: { kind: 'torchvision', name: 'resnet50' }, method: 'auto' } as const;
    const places = [
      python(),
      { python: 'venv/bin/python', environment: {}, folder },
      { environment: { PATH: `/nowhere:${join(folder, 'venv/bin')}` }, folder, python: 'python' },
      { python: 'none', environment: { PYTHONPATH: packages() }, folder },
    ];
    const keys = () => Promise.all(places.map((place) => answerKey(vision, place)));
    writeFileSync(join(packages(), 'torch-2.11.0.dist-info'), '');
    const before = await keys();
    expect(await keys()).toEqual(before);
    renameSync(
      join(packages(), 'torch-2.11.0.dist-info'),
      join(packages(), 'torch-2.12.0.dist-info'),
    );
    utimesSync(packages(), 1, 1);
    for (const [at, now] of (await keys()).entries()) expect(now).not.toBe(before[at]);
  });

  it('is the same for a model that is not there, until it is', async () => {
    const before = await key(of('nothing/config.json'));
    expect(await key(of('nothing/config.json'))).toBe(before);
    mkdirSync(join(folder, 'nothing'));
    write('nothing/config.json', '{}');
    expect(await key(of('nothing/config.json'))).not.toBe(before);
  });

  it('has none for a script, for a formula, and for a folder with too many files', async () => {
    const script = { kind: 'script', path: join(folder, 'job.py'), args: [] } as const;
    expect(await key({ source: script, method: 'auto' })).toBeUndefined();
    expect(
      await key({ source: { kind: 'type', type: 'cnn', size: 'small' }, method: 'auto' }),
    ).toBeUndefined();
    expect(await key(of('model', { method: 'formula' }))).toBeUndefined();
    for (let n = 0; n < 2000; n++) write(`model/part-${n}.safetensors`, '');
    expect(await key(of('model'))).toBeUndefined();
    expect(await key(of('model/config.json'))).toBeDefined();
  });
});
