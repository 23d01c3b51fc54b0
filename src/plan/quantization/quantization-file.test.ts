import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import {
  loadQuantization,
  modelKey,
  type SavedQuantization,
  saveQuantization,
} from './quantization-file.js';

const saved: SavedQuantization = {
  model: 'cyberagent/calm3-22b-chat',
  preset: 'int4_double',
  forTraining: true,
  computeDtype: 'bfloat16',
  memory: { gpuBytes: [23_622_320_128], hostBytes: 51_539_607_552 },
};

let home: string;
beforeEach(() => {
  home = join(mkdtempSync(join(tmpdir(), 'plimsoll-quantization-')), 'home');
});
afterEach(() => {
  rmSync(dirname(home), { recursive: true, force: true });
});

const path = () => join(home, 'quantization', `${modelKey(saved.model)}.json`);

describe('a model in a folder', () => {
  it('is found however its path is written', () => {
    const folder = join(dirname(home), 'my-model');
    mkdirSync(folder);
    writeFileSync(join(folder, 'config.json'), '{}');
    symlinkSync(folder, join(dirname(home), 'link'));
    saveQuantization(home, { ...saved, model: join(folder, 'config.json') });
    const written = [folder, `${folder}/`, relative('.', folder), join(dirname(home), 'link')];
    for (const name of [...written, join(folder, 'config.json'), `${folder}/../my-model`]) {
      expect(loadQuantization(home, name)?.preset).toBe(saved.preset);
    }
    expect(loadQuantization(home, 'my-model')).toBeUndefined();
  });
});

function write(text: string | Uint8Array): void {
  mkdirSync(dirname(path()), { recursive: true });
  writeFileSync(path(), text);
}

describe('saveQuantization and loadQuantization', () => {
  it('keep a choice for each model', () => {
    expect(loadQuantization(home, saved.model)).toBeUndefined();
    expect(saveQuantization(home, saved)).toBe(path());
    const other = {
      ...saved,
      model: 'gpt2',
      preset: 'int8',
      memory: { gpuBytes: [], hostBytes: 0 },
    };
    saveQuantization(home, { ...other, preset: 'int8' });
    expect(loadQuantization(home, saved.model)).toEqual(saved);
    expect(loadQuantization(home, 'gpt2')).toEqual(other);
    expect(readdirSync(join(home, 'quantization'))).toHaveLength(2);
    expect(JSON.parse(readFileSync(path(), 'utf8'))).toEqual({ schema: 1, ...saved });
  });

  it('replace what was there before', () => {
    saveQuantization(home, saved);
    saveQuantization(home, { ...saved, preset: 'fp16' });
    expect(loadQuantization(home, saved.model)?.preset).toBe('fp16');
  });

  it('do not save what could not be loaded', () => {
    expect(() => saveQuantization(home, { ...saved, model: '' })).toThrow(
      expect.objectContaining({ code: 'bad-quantization' }),
    );
    const memory = { gpuBytes: [0.5], hostBytes: 0 };
    expect(() => saveQuantization(home, { ...saved, memory })).toThrow(/whole bytes/);
    expect(existsSync(home)).toBe(false);
  });

  it('say so when the folder cannot be made', () => {
    writeFileSync(home, '');
    expect(() => saveQuantization(home, saved)).toThrow(
      expect.objectContaining({ code: 'cannot-write', exitCode: 2 }),
    );
  });

  it.each([
    ['', 'it is not JSON'],
    ['[]', 'it is not an object'],
    [JSON.stringify({ ...saved, schema: 2 }), 'its schema is not 1'],
    [JSON.stringify({ schema: 1, ...saved, extra: 1 }), 'a key that means nothing, "extra"'],
    [JSON.stringify({ schema: 1, ...saved, preset: 'int2' }), 'preset must be one of cpu, fp16'],
    [JSON.stringify({ schema: 1, ...saved, forTraining: 'yes' }), 'forTraining must be true'],
    [JSON.stringify({ schema: 1, ...saved, computeDtype: 'float64' }), 'computeDtype must be'],
    [JSON.stringify({ schema: 1, ...saved, memory: { gpuBytes: [-1], hostBytes: 0 } }), 'memory'],
    [JSON.stringify({ schema: 1, ...saved, model: 'another' }), 'it is for another model'],
    ['x'.repeat(70_000), 'it has 70000 bytes, more than 65536'],
  ])('refuse %.60s', (text, why) => {
    write(text);
    expect(() => loadQuantization(home, saved.model)).toThrow(
      expect.objectContaining({
        code: 'bad-quantization-file',
        message: expect.stringContaining(why),
      }),
    );
  });

  it('refuse what is no text, and what is no file', () => {
    write(new Uint8Array([0x7b, 0xff]));
    expect(() => loadQuantization(home, saved.model)).toThrow(Failure);
    rmSync(path());
    mkdirSync(path());
    expect(() => loadQuantization(home, saved.model)).toThrow(/not a file|directory/);
  });

  it('answer a choice or a Failure, whatever is in the file', () => {
    const almost = fc.record(
      {
        schema: fc.constantFrom<unknown>(1, 2, '1'),
        model: fc.constantFrom<unknown>(saved.model, '', 1),
        preset: fc.constantFrom<unknown>('int4', '__proto__', null),
        forTraining: fc.constantFrom<unknown>(true, 0),
        computeDtype: fc.constantFrom<unknown>('float16', 'int'),
        memory: fc.oneof(fc.constant(saved.memory), fc.jsonValue()),
      },
      { requiredKeys: [] },
    );
    const texts = fc.oneof(
      almost.map((value) => JSON.stringify(value)),
      fc.json(),
      fc.string(),
    );
    fc.assert(
      fc.property(texts, (text) => {
        write(text);
        try {
          expect(loadQuantization(home, saved.model)?.model).toBe(saved.model);
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
    );
  });
});

describe('modelKey', () => {
  it('can be read', () => {
    expect(modelKey('cyberagent/calm3-22b-chat')).toMatch(
      /^cyberagent-calm3-22b-chat-[0-9a-f]{12}$/,
    );
  });

  it('is a plain file name for any model, and another one for another model', () => {
    const names = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 300 }),
      fc.constantFrom('..', '.', '', '../../etc/passwd', 'a/b', 'a-b', 'C:\\x', '\0'),
    );
    fc.assert(
      fc.property(names, names, (one, two) => {
        expect(modelKey(one)).toMatch(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,95}$/);
        expect(modelKey(one) === modelKey(two)).toBe(one === two);
      }),
    );
  });
});
