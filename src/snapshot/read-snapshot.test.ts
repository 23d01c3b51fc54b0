import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { array, assert, nat, property, tuple, uint8Array } from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { needs } from '../../test/support/needs.js';
import { Failure } from '../failure.js';
import {
  frames,
  recorded,
  recordedNames,
  recordedPath,
  snapshotDict,
} from './made-snapshot-for-tests.js';
import { type Plain, pickle, Tuple } from './pickle-writer-for-tests.js';
import { parseSnapshot, readSnapshot } from './read-snapshot.js';
import { rowOf } from './snapshot.js';

const folder = mkdtempSync(join(tmpdir(), 'plimsoll-snapshot-'));
afterAll(() => rmSync(folder, { recursive: true }));

const stack = frames('/app/train.py:21 step', '/app/train.py:40 main');
const segment = { address: 0x7f0000000000, blocks: [{ size: 2 * 1024 ** 2, stack }] };
const event = { action: 'alloc', addr: 0x7f0000000000, size: 2_000_000, stack };

function codeOf(bytes: Uint8Array): string {
  try {
    parseSnapshot(bytes);
    return 'read';
  } catch (error) {
    if (error instanceof Failure && error.kind === 'input') return error.code;
    throw error;
  }
}

describe('reading a snapshot', () => {
  it.each([2, 3, 4, 5] as const)('reads protocol %i', (protocol) => {
    const snapshot = parseSnapshot(pickle(snapshotDict([segment], [event]), protocol));
    expect(snapshot.protocol).toBe(protocol);
    const [device] = snapshot.devices;
    expect(device?.segments[0]?.blocks).toMatchObject([{ bytes: 2097152, state: 'allocated' }]);
    expect(device?.events).toMatchObject({ length: 1 });
    const shown = snapshot.names.stack(device?.segments[0]?.blocks[0]?.stack ?? -1);
    expect(shown).toEqual([
      { name: 'step', file: '/app/train.py', line: 21 },
      { name: 'main', file: '/app/train.py', line: 40 },
    ]);
  });

  // With a counter in each branch, as `npm run mutants` puts there, these take minutes.
  it.skipIf(process.env['MUTANTS_TESTS'] !== undefined).each(recordedNames)(
    'reads what PyTorch wrote, and keeps equal stacks once: %s',
    async (name) => {
      const { devices, names, annotations } = await recorded(name);
      const counts = { steady: [10243, 189, 12], leak: [24019, 319, 48], oom: [654, 92, 0] }[name];
      expect([devices[0]?.events.length, devices[0]?.segments.length, annotations.length]).toEqual(
        counts,
      );
      expect(names.stacks.length).toBeLessThan(80);
    },
  );

  it.each([0x20000000000001n, 0x7fffffffffffff01n, 0xfffffffffff00001n])(
    'keeps the address %s exact',
    (address) => {
      const { names, devices } = parseSnapshot(
        pickle(snapshotDict([{ ...segment, address }], [{ ...event, addr: address }])),
      );
      const [device] = devices;
      expect(names.address(device?.segments[0]?.address ?? -1)).toBe(address);
      expect(names.address(device?.events.address[0] ?? -1)).toBe(address);
    },
  );

  it('tells apart two addresses that are one number in floating point', () => {
    const addresses = [2n ** 60n, 2n ** 60n + 1n];
    const { names, devices } = parseSnapshot(
      pickle(
        snapshotDict(
          [],
          addresses.map((addr) => ({ ...event, addr })),
        ),
      ),
    );
    const [a = -1, b = -1] = devices[0]?.events.address ?? [];
    expect([names.address(a), names.address(b)]).toEqual(addresses);
    expect((names.offset[b] ?? 0) - (names.offset[a] ?? 0)).toBe(1);
  });

  it('follows events that are listed again through the memo', () => {
    const dict = snapshotDict([], []);
    const [first, second] = [
      { action: 'alloc', addr: 512, size: 1, stream: 0, time_us: 1, frames: [] },
      { action: 'free_completed', addr: 512, size: 1, stream: 0, time_us: 2, frames: [] },
    ];
    const { devices } = parseSnapshot(
      pickle({ ...dict, device_traces: [[first, second, first, second, first]] }),
    );
    const events = devices[0]?.events;
    if (!events) throw new Error('no device');
    const actions = Array.from(
      { length: events.length },
      (_, at) => events.action[rowOf(events, at)],
    );
    expect(actions).toEqual([1, 3, 1, 3, 1]);
  });

  it.each([2, 4] as const)('takes frames again from far places of the memo: %i', (protocol) => {
    const deep = frames(
      ...Array.from({ length: 400 }, (_, line) => `/app/deep.py:${line} f${line}`),
    );
    const withStack = (own: typeof deep) => ({ ...event, stack: own });
    const events = [withStack(deep), withStack(deep.slice(300)), withStack(deep.slice(0, 5))];
    const { devices, names } = parseSnapshot(pickle(snapshotDict([], events), protocol));
    const lines = [...(devices[0]?.events.stack.slice(0, 3) ?? [])].map((own) =>
      names.stack(own).map(({ line }) => line),
    );
    const all = Array.from({ length: 400 }, (_, line) => line);
    expect(lines).toEqual([all, all.slice(300), all.slice(0, 5)]);
  });

  it.each([
    ['POP_MARK without a mark', [0x31]],
    ['POP below a mark', [0x4e, 0x28, 0x4e, 0x30, 0x85]],
    ['SETITEM without a dict', [0x4e, 0x4e, 0x73]],
    ['SETITEM on a number', [0x4b, 1, 0x4e, 0x4e, 0x73]],
    ['APPEND to a number', [0x4b, 1, 0x4e, 0x61]],
    ['APPENDS to a number', [0x4b, 1, 0x28, 0x4e, 0x65]],
    ['DICT of one value', [0x28, 0x4e, 0x64]],
    ['a number in the memo', [0x4b, 1, 0x94]],
    ['a protocol in the middle', [0x4e, 0x30, 0x80, 3, 0x4e]],
  ])('refuses %s', (_, code) => {
    const body = pickle(snapshotDict([segment], []), 3).subarray(2);
    expect(codeOf(Uint8Array.from([0x80, 3, ...code, 0x30, ...body]))).toBe('bad-snapshot');
  });

  it('reads the same from opcodes that Python does not write', () => {
    const blocks = [
      { size: 70_000, stack },
      { size: 3 * 2 ** 20, state: 'inactive' },
    ];
    const big = { address: 2n ** 53n + 7n, blocks, pool: 5, expandable: true, stream: 3 };
    const freed = { action: 'free_completed', addr: 2n ** 53n, size: 2 ** 40, stream: 300 };
    const dict = snapshotDict([segment, big], [event, { ...freed, free: 77_000 }, event], {
      garbage_collection_threshold: 0.25,
      max_split_size: -1,
    });
    const read = (style: 'as Python' | 'rarely') => {
      const { devices, names, settings } = parseSnapshot(pickle(dict, 4, style));
      const address = (number: number) => names.address(number);
      return devices.map(({ segments, events }) => ({
        settings,
        segments: segments.map((one) => ({
          ...one,
          address: address(one.address),
          stream: names.stream(one.stream),
          stack: names.stack(one.stack),
          blocks: one.blocks.map((block) => ({
            ...block,
            address: address(block.address),
            stack: names.stack(block.stack),
          })),
        })),
        events: Array.from({ length: events.length }, (_, at) => rowOf(events, at)).map((row) => [
          events.action[row],
          address(events.address[row] ?? -1),
          events.bytes[row],
          events.timeUs[row],
          names.stream(events.stream[row] ?? 0),
          names.stack(events.stack[row] ?? 0),
          events.deviceFree.get(row),
        ]),
      }));
    };
    const plain = read('as Python');
    expect(read('rarely')).toEqual(plain);
    expect(plain).toMatchObject([
      {
        settings: { maxSplitBytes: -1, garbageCollectionThreshold: 0.25 },
        segments: [
          { address: 0x7f0000000000n, totalBytes: 2 ** 21, pool: '0,0', expandable: false },
          {
            address: 2n ** 53n + 7n,
            totalBytes: 3 * 2 ** 20 + 70_000,
            allocatedBytes: 70_000,
            pool: '0,5',
            expandable: true,
            blocks: [{ bytes: 70_000 }, { address: 2n ** 53n + 70_007n, state: 'inactive' }],
          },
        ],
      },
    ]);
    expect(plain[0]?.events.map((row) => row.slice(0, 4))).toEqual([
      [1, 0x7f0000000000n, 2_000_000, 1_700_000_000_000_000],
      [3, 2n ** 53n, 2 ** 40, 1_700_000_000_001_000],
      [1, 0x7f0000000000n, 2_000_000, 1_700_000_000_002_000],
    ]);
  });

  it('reads a bare list of segments, as torch.cuda.memory_snapshot() gives it', () => {
    const { devices } = parseSnapshot(pickle(snapshotDict([segment], [])['segments'] ?? []));
    expect(devices[0]?.segments).toHaveLength(1);
  });

  it('keeps devices apart', () => {
    const dict = snapshotDict([segment], []);
    const { devices } = parseSnapshot(
      pickle({
        ...dict,
        device_traces: [[], [], [{ action: 'alloc', addr: 0, size: 1, frames: [] }]],
      }),
    );
    expect(devices.map(({ device }) => device)).toEqual([0, 2]);
  });

  it('does not mind fields and values that it does not know', () => {
    const dict = snapshotDict([segment], [event]);
    const odd: Plain = {
      a: [1, 2.5, null, true],
      b: new Tuple('x', -5, 2n ** 90n),
      c: { d: [[]] },
    };
    expect(parseSnapshot(pickle({ ...dict, odd, more: odd })).devices).toHaveLength(1);
  });

  it('reads stacks that come in more than one piece', () => {
    const deep = frames(...Array.from({ length: 1500 }, (_, line) => `/app/deep.py:${line} f`));
    const snapshot = parseSnapshot(pickle(snapshotDict([], [{ ...event, stack: deep }])));
    const own = snapshot.devices[0]?.events.stack[0] ?? -1;
    expect(snapshot.names.stack(own)).toHaveLength(1500);
    expect(snapshot.names.stack(own)[1499]?.line).toBe(1499);
  });
});

describe('packed snapshots', () => {
  const bytes = pickle(snapshotDict([segment], [event]));

  it('reads .gz by its content, whatever its name', async () => {
    const path = join(folder, 'packed.pickle');
    writeFileSync(path, gzipSync(bytes));
    const shares: number[] = [];
    const snapshot = await readSnapshot(path, (share) => shares.push(share));
    expect(snapshot.devices).toHaveLength(1);
    expect(shares.at(-1)).toBe(1);
  });

  it('says when .gz or .xz is cut', async () => {
    const path = join(folder, 'cut');
    writeFileSync(path, gzipSync(bytes).subarray(0, 60));
    await expect(readSnapshot(path)).rejects.toMatchObject({ code: 'bad-archive' });
    writeFileSync(path, readFileSync(recordedPath('oom')).subarray(0, 4000));
    await expect(readSnapshot(path)).rejects.toMatchObject({ code: 'bad-archive' });
  });

  it(
    'does not wait for the writer of a pipe',
    needs(process.platform !== 'win32', 'pipes of Unix'),
    async () => {
      const path = join(folder, 'pipe.pickle');
      execFileSync('sh', ['-c', 'mkfifo "$0"', path]);
      await expect(readSnapshot(path)).rejects.toThrow('it is not a plain file');
    },
  );

  it('says what it cannot open', async () => {
    await expect(readSnapshot(join(folder, 'nowhere'))).rejects.toMatchObject({
      code: 'cannot-read',
      kind: 'input',
    });
    await expect(readSnapshot(folder)).rejects.toMatchObject({ code: 'cannot-read' });
  });
});

describe('hostile files', () => {
  const whole = pickle(snapshotDict([segment], [event, { ...event, addr: 2n ** 60n }]));
  const made = (code: readonly number[]) => Uint8Array.from([0x80, 4].concat(code, 0x2e));
  const text = (word: string) => [...new TextEncoder().encode(word)];
  /** A snapshot before which some opcodes leave a value that is thrown away. */
  const spliced = (code: readonly number[]) => {
    const body = pickle(snapshotDict([segment], []), 3).subarray(2);
    return Uint8Array.from([0x80, 3, ...code, 0x30, ...body]);
  };

  it.each([
    ['GLOBAL', [0x63, ...text('os\nsystem\n')]],
    ['STACK_GLOBAL', [0x4e, 0x4e, 0x93]],
    ['REDUCE', [0x4e, 0x4e, 0x52]],
    ['INST', [0x28, 0x69, ...text('os\nsystem\n')]],
    ['OBJ', [0x28, 0x4e, 0x6f]],
    ['NEWOBJ', [0x4e, 0x4e, 0x81]],
    ['NEWOBJ_EX', [0x4e, 0x4e, 0x4e, 0x92]],
    ['BUILD', [0x4e, 0x4e, 0x62]],
    ['EXT1', [0x82, 1]],
    ['EXT2', [0x83, 1, 0]],
    ['EXT4', [0x84, 1, 0, 0, 0]],
    ['PERSID', [0x50, ...text('1\n')]],
    ['BINPERSID', [0x4e, 0x51]],
    ['NEXT_BUFFER', [0x97]],
    ['READONLY_BUFFER', [0x4e, 0x98]],
  ])('refuses %s by its name', (name, code) => {
    const attempt = () => parseSnapshot(made(code));
    expect(attempt).toThrow(expect.objectContaining({ code: 'unsafe-pickle' }));
    expect(attempt).toThrow(new RegExp(`opcode ${name} at byte`));
  });

  it.each([
    ['a string of 2^60 bytes', [0x8d, 0, 0, 0, 0, 0, 0, 0, 0x10], 'snapshot-limit'],
    ['a string of 4 GB', [0x58, 0xff, 0xff, 0xff, 0xff], 'snapshot-limit'],
    ['bytes of 4 GB', [0x42, 0xff, 0xff, 0xff, 0xff], 'snapshot-limit'],
    ['an array of 2^60 bytes', [0x96, 0, 0, 0, 0, 0, 0, 0, 0x10], 'snapshot-limit'],
    ['an integer of 2 GB', [0x8b, 0xff, 0xff, 0xff, 0x7f], 'snapshot-limit'],
    ['a memo of 4 billion places', [0x4e, 0x72, 0xff, 0xff, 0xff, 0xff], 'bad-snapshot'],
    ['an empty place of the memo', [0x68, 9], 'bad-snapshot'],
    ['an empty frame', [0x95, 0, 0, 0, 0, 0, 0, 0, 0], 'bad-snapshot'],
    ['a second protocol', [0x80, 4], 'bad-snapshot'],
    ['nothing to stop with', [], 'bad-snapshot'],
    ['a dict with half an entry', [0x7d, 0x28, 0x4e, 0x75], 'bad-snapshot'],
    ['keys on a number', [0x4b, 1, 0x28, 0x4e, 0x4e, 0x75], 'bad-snapshot'],
    ['protocol 0', [0x49, 0x31, 0x0a], 'bad-snapshot'],
    ['a pickle of something else', [0x5d], 'bad-snapshot'],
  ])('answers %s with one clear error', (_, code, expected) => {
    expect(codeOf(made(code))).toBe(expected);
  });

  it.skipIf(process.env['MUTANTS_TESTS'] !== undefined).each([
    ['marks inside of marks', 5000, [0x28], [], 'snapshot-limit'],
    ['values without end', 5_000_000, [0x4e], [], 'snapshot-limit'],
    ['lists inside of lists', 100_000, [0x5d], [0x61], 'bad-snapshot'],
    ['values thrown away', 200_000, [0x4e, 0x30], [], 'snapshot-limit'],
    ['new dicts without end', 200_000, [0x7d, 0x28, 0x4e, 0x4e, 0x75], [], 'snapshot-limit'],
  ])('answers %s (%i times) with one clear error', (_, times, before, after, expected) => {
    const bytes = new Uint8Array(3 + times * (before.length + after.length)).fill(0x2e);
    bytes.set([0x80, 4]);
    for (let at = 0; at < times; at += 1) bytes.set(before, 2 + at * before.length);
    bytes.fill(after[0] ?? 0x2e, 2 + times * before.length, bytes.length - 1);
    expect(codeOf(bytes)).toBe(expected);
  });

  it.each([
    ['as many lists inside of lists as may be', 1000, 'read'],
    ['one more', 1001, 'snapshot-limit'],
  ])('reads %s', (_, depth, expected) => {
    const closed = [
      ...Array.from({ length: depth }, () => 0x28),
      ...Array.from({ length: depth }, () => 0x6c),
    ];
    // The value is thrown away: only how it is nested counts.
    expect(codeOf(spliced(closed))).toBe(expected);
  });

  it('closes a mark once', () => {
    expect(codeOf(spliced([0x28, 0x6c, 0x6c]))).toBe('bad-snapshot');
    expect(codeOf(spliced([0x28, 0x6c, 0x28, 0x6c, 0x30]))).toBe('read');
  });

  it.each([
    [-1, 'bad-snapshot'],
    [0, 'read'],
  ])('wants a frame to end before the next begins: %i bytes off', (off, expected) => {
    const body = pickle(snapshotDict([segment], []), 3).subarray(2);
    const frame = (length: number) => [0x95, length & 255, length >> 8, 0, 0, 0, 0, 0, 0];
    // NONE and POP in a frame of their own, then the rest in another.
    const bytes = [0x80, 4, ...frame(2 - off), 0x4e, 0x30, ...frame(body.length), ...body];
    expect(codeOf(Uint8Array.from(bytes))).toBe(expected);
  });

  it('refuses what is no pickle, and protocols it does not know', () => {
    expect(codeOf(new TextEncoder().encode('{"segments": []}'))).toBe('bad-snapshot');
    expect(codeOf(new Uint8Array(0))).toBe('cut-snapshot');
    expect(codeOf(Uint8Array.from([0x80, 9, 0x4e, 0x2e]))).toBe('bad-snapshot');
  });

  it('knows a file that was cut, wherever', () => {
    for (let end = 0; end < whole.length; end += 1) {
      expect(['cut-snapshot', 'bad-snapshot']).toContain(codeOf(whole.subarray(0, end)));
    }
    expect(codeOf(whole.subarray(0, whole.length - 40))).toBe('cut-snapshot');
  });

  it('never fails in any other way, however the bytes are changed', () => {
    assert(
      property(
        array(tuple(nat(whole.length - 1), nat(255)), { minLength: 1, maxLength: 12 }),
        (changes) => {
          const changed = whole.slice();
          for (const [at, byte] of changes) changed[at] = byte;
          expect(codeOf(changed)).toMatch(/^[a-z-]+$/);
        },
      ),
      { numRuns: 800 },
    );
    assert(
      property(uint8Array({ maxLength: 200 }), (bytes) => {
        expect(codeOf(Uint8Array.from([0x80, 4, ...bytes]))).not.toBe('read');
      }),
      { numRuns: 800 },
    );
  });
});
