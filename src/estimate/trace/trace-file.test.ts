import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { assert, asyncProperty, integer, json, nat, oneof, record, string } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';
import { replay } from './event-replay.js';
import { eventKind } from './event-stream.js';
import { EventLine, launchAddresses, readFacts, readTrace, traceCategories } from './trace-file.js';
import { gpt2TraceText, pieces } from './traces-for-tests.js';

const header = '{"plimsoll":"trace","version":1,"torch":"2.11.0"}';
const footer = '{"end":true,"parameters":3,"parameterBytes":12,"notes":["as told"]}';
const read = (lines: readonly string[]) => readTrace(pieces(lines.join('\n')));
const whole = (...events: readonly string[]) => read([header, '["s",0,""]', ...events, footer]);

async function outcome(text: string, size?: number): Promise<string> {
  try {
    await readTrace(pieces(text, size));
    return 'read';
  } catch (error) {
    if (error instanceof Failure && error.kind === 'input') return error.code;
    throw error;
  }
}

describe('readTrace', () => {
  it('reads a real trace, however it is cut into pieces', async () => {
    const text = gpt2TraceText();
    const trace = await readTrace(pieces(text));
    expect(trace).toMatchObject({ parameters: 124_439_808, parameterBytes: 248_879_616 });
    expect(trace.torch).toMatch(/^2\./);
    expect(trace.stream.marks.map(({ name }) => name)).toContain('step:3:backward');
    expect(trace.category).toHaveLength(trace.stream.slots);
    expect(await readTrace(pieces(text, 997))).toEqual(trace);
  });

  it('knows what each allocation is for, and whose it is', async () => {
    const trace = await whole('["s",1,"lm_head"]', '["a",7,100,0,1,"g"]', '["f",7]');
    // The first slot is what every job has before it begins.
    expect(traceCategories[trace.category[1] ?? 0]).toBe('g');
    expect(trace.strings[trace.module[1] ?? 0]).toBe('lm_head');
    expect(trace.notes).toEqual(['as told']);
    expect(replay(trace.stream).peakAllocatedBytes).toBe(512);
  });

  it('reads how a program spreads its model, and refuses ways that it does not know', async () => {
    const end = (parallel: string) =>
      `{"end":true,"parameters":3,"parameterBytes":12,"parallel":${parallel}}`;
    const ranks = '"gpus":8,"nodes":1,"tensorParallel":1';
    const { parallel } = await read([header, '["s",0,""]', end(`{"way":"fsdp2",${ranks}}`)]);
    expect(parallel).toEqual({ way: 'fsdp2', gpus: 8, nodes: 1, tensorParallel: 1 });
    const bad = ['3', 'null', `{"way":"pp",${ranks}}`, `{"way":"ddp"}`];
    const none = `{"way":"ddp","gpus":0,"nodes":1,"tensorParallel":1}`;
    for (const one of [...bad, none]) {
      expect(await outcome([header, '["s",0,""]', end(one)].join('\n'))).toBe('bad-trace');
    }
  });

  it('counts the peak from where the model is built', async () => {
    const building = ['["a",1,1048576,0,0,"w"]', '["f",1]', '["m","built"]', '["c"]'];
    const { stream } = await whole(...building, '["m","ready"]', '["a",2,600,0,0,"w"]');
    expect(replay(stream).peakAllocatedBytes).toBe(1024);
  });

  it.each(['aten.convolution.default', 'aten._cudnn_rnn.default'])(
    'lets cuDNN take its addresses before the first %s',
    async (op) => {
      const uses = ['["a",1,600,1,0,"x"]', '["a",2,600,0,0,"x"]', '["a",3,600,1,0,"x"]'];
      const { stream } = await whole(`["s",1,"${op}"]`, ...uses);
      const kinds = [...stream.kind.subarray(2, stream.length)];
      expect(kinds).toEqual([
        eventKind.takeAddresses,
        eventKind.alloc,
        eventKind.alloc,
        eventKind.alloc,
      ]);
    },
  );

  it('takes addresses where kernels of a kind first run, and of cuDNN once', async () => {
    const conv = ['["s",1,"aten.convolution.default"]', '["a",2,600,1,0,"x"]'];
    const kinds = ['kernel', 'checking', 'lines'].map((kind) => `["k","${kind}"]`);
    const { stream } = await whole(...kinds, ...conv);
    const { alloc, firstKernel, takeAddresses } = eventKind;
    expect([...stream.kind.subarray(2)]).toEqual([
      firstKernel,
      takeAddresses,
      takeAddresses,
      takeAddresses,
      alloc,
    ]);
    expect([...stream.bytes.subarray(3, 6)]).toEqual([10 * MiB, 4 * MiB, 6 * MiB]);
  });

  it.each([
    ['nothing', [], 'Line 1 .*ends before its end'],
    ['an event before the header', ['["c"]'], 'Line 1 .*header must come first'],
    ['another header', ['{"plimsoll":"profile"}'], 'Line 1 .*not the header'],
    ['another version', ['{"plimsoll":"trace","version":2}'], 'only version 1'],
    ['no footer', [header, '["c"]'], 'Line 3 .*ends before its end'],
    ['lines after the footer', [header, footer, '["c"]'], 'Line 3 .*after the end'],
    ['an error', [header, '{"error":{}}'], 'Line 2 .*not an event'],
    ['a line that is not JSON', [header, '["c"'], 'Line 2 .*not JSON'],
    ['an unknown kind', [header, '["z"]'], 'Line 2 .*unknown kind'],
    ['an unknown kernel', [header, '["k","x"]'], 'Line 2 .*kernel is unknown'],
    ['a free of nothing', [header, '["f",3]'], '3 is not allocated'],
    ['strings out of order', [header, '["s",1,"x"]'], 'in their order'],
    ['a missing string', [header, '["a",1,8,0,0,"w"]'], 'string that was not given'],
    ['a bad size', [header, '["s",0,""]', '["a",1,-8,0,0,"w"]'], 'not a whole one'],
    ['an unknown category', [header, '["s",0,""]', '["a",1,8,0,0,"?"]'], 'category is unknown'],
    ['a line without end', [header, `["m","${'x'.repeat(2 ** 20)}"]`], 'Line 2 .*too long'],
  ])('refuses %s', async (_, lines, message) => {
    await expect(read(lines)).rejects.toThrow(new RegExp(message));
    await expect(read(lines)).rejects.toMatchObject({ kind: 'input', code: 'bad-trace' });
  });

  it('refuses one id for two allocations that live at once', async () => {
    const twice = ['["a",1,8,0,0,"w"]', '["a",1,8,0,0,"w"]'];
    await expect(whole(...twice)).rejects.toThrow('1 is allocated already');
  });

  it('refuses a torn trace, or reads it, and never breaks', async () => {
    const lines = gpt2TraceText().split('\n').slice(0, 400);
    const text = lines.join('\n');
    const cut = record({
      at: nat(text.length - 1),
      length: nat(40),
      instead: oneof(string({ maxLength: 20 }), json()),
      size: integer({ min: 1, max: 5000 }),
    });
    await assert(
      asyncProperty(cut, async ({ at, length, instead, size }) => {
        const torn = text.slice(0, at) + instead + text.slice(at + length);
        expect(['bad-trace', 'bad-event', 'read']).toContain(await outcome(torn, size));
      }),
      { numRuns: 200 },
    );
  });
});

/** What the line says, between two others. */
function readLine(text: string) {
  const line = new EventLine();
  const around = `["f",1]\n${text}\n["f",2]\n`;
  const kind = line.read(around, 8, 8 + text.length);
  const { id, bytes, op, module, letter } = line;
  if (kind === 'free') return ['f', id];
  return kind && ['a', id, bytes, op, module, letter];
}

describe('EventLine', () => {
  it('reads requests and frees as they are usually written', () => {
    const count = fc.integer({ min: 0, max: 2 ** 49 });
    const letter = fc.constantFrom('w', 'g', 'o', 'x');
    const event = fc.oneof(
      fc.tuple(fc.constant('a'), count, count, count, count, letter),
      fc.tuple(fc.constant('f'), count),
    );
    fc.assert(
      fc.property(event, (one) => {
        expect(readLine(JSON.stringify(one))).toEqual(one);
      }),
    );
  });

  it('leaves to others what is written otherwise, and says nothing that JSON does not', () => {
    const others = [
      '["a",1,512,0,0,"x",2]',
      '["a",1,512,0,"x"]',
      '["a",1,-512,0,0,"x"]',
      '["a",01,512,0,0,"x"]',
      '["a",1,512,0,0,"xy"]',
      '["a",1,512,0,0,"x"',
      '["a", 1, 512, 0, 0, "x"]',
      '["a",1,512.5,0,0,"x"]',
      '["a",1,5e3,0,0,"x"]',
      '["f",9007199254740993]',
      '["f",]',
      '["f",1] ',
      '["f",1,2]',
      '["o",1,2,0.5,3]',
      '[f,1]',
      '{}',
      '',
    ];
    expect(others.map(readLine)).toEqual(others.map(() => undefined));
    const anyPieces = fc.constantFrom(
      '["a",',
      '["f",',
      '1',
      '0',
      ',',
      '"x"',
      ']',
      '"',
      ' ',
      '-',
      '.',
    );
    fc.assert(
      fc.property(fc.array(anyPieces, { maxLength: 12 }), (some) => {
        const text = some.join('');
        const found = readLine(text);
        if (found !== undefined) expect(found).toEqual(JSON.parse(text));
      }),
      { numRuns: 2000 },
    );
  });
});

/** The contract with the Python side: what each line of a trace holds. */
interface TraceFormat {
  version: number;
  events: Record<string, { fields: [string, string][]; optional?: [string, string][] }>;
  categories: Record<string, string>;
  kernels: Record<string, string>;
  footer: Record<string, { type: string }>;
  facts: Record<string, { type: string }>;
}
const format: TraceFormat = JSON.parse(
  readFileSync(
    new URL('../../../python/plimsoll_trace/trace-format.json', import.meta.url),
    'utf8',
  ),
);

describe('the format of a trace', () => {
  /** A value of each type, and one that the type does not allow. */
  const values: Readonly<Record<string, readonly [string, string]>> = {
    count: ['0', '"0"'],
    bytes: ['512', '-1'],
    share: ['0.5', '1.5'],
    text: ['"step:1:forward"', '7'],
    category: ['"g"', '"?"'],
    kernel: ['"images"', '"?"'],
  };
  const known = ['["s",0,""]', '["a",7,512,0,0,"x"]'];
  const lineOf = (kind: string, types: readonly string[], wrongAt?: number) => {
    const fields = types.map((type, at) => values[type]?.[at === wrongAt ? 1 : 0]);
    return `[${[JSON.stringify(kind), ...fields].join(',')}]`;
  };
  /** Names come in order, and requests have other ids than those before. */
  const made = (line: string) =>
    line.replace(/^\["s",0/, '["s",1').replace(/^\["([fr])",0/, '["$1",7');

  it('names the categories, kernels and facts that this side reads', () => {
    expect(Object.keys(format.categories)).toEqual([...traceCategories]);
    expect(Object.keys(format.kernels)).toEqual(['kernel', ...launchAddresses.keys()]);
    const found: Record<string, string> = {};
    readFacts(
      (name) => Object.assign(found, { [name]: 'flag' }) === found,
      (name) => Object.keys(Object.assign(found, { [name]: 'bytes' })).length,
    );
    expect(Object.entries(format.facts).map(([name, { type }]) => [name, type])).toEqual(
      Object.entries(found),
    );
  });

  it('has an event of each kind that this side reads, with fields of their types', async () => {
    expect(Object.keys(format.events).toSorted()).toEqual('acfkmorsw'.split(''));
    for (const [kind, { fields, optional = [] }] of Object.entries(format.events)) {
      const types = [...fields, ...optional].map(([, type]) => type);
      for (const given of new Set([types, fields.map(([, type]) => type)])) {
        const lines = (line: string) => [header, ...known, made(line), footer].join('\n');
        expect([kind, await outcome(lines(lineOf(kind, given)))]).toEqual([kind, 'read']);
        for (const at of given.keys()) {
          const wrong = await outcome(lines(lineOf(kind, given, at)));
          expect([kind, at, wrong]).toEqual([kind, at, 'bad-trace']);
        }
      }
    }
  });

  it('gives each fact as the last line has it', async () => {
    for (const [name, { type }] of Object.entries(format.facts)) {
      const set = type === 'flag' ? 'true' : '7';
      const end = footer.replace('}', `,"${name}":${set}}`);
      const [without, withIt] = [await whole(), await read([header, '["s",0,""]', end])];
      expect([name, Reflect.get(without, name)]).toEqual([name, type === 'flag' ? false : 0]);
      expect([name, Reflect.get(withIt, name)]).toEqual([name, JSON.parse(set)]);
    }
  });
});
