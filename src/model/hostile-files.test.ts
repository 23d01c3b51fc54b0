import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import { GiB } from '../units/bytes.js';
import { readModel } from './read-model.js';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-hostile-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const u64 = (value: bigint) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
};
const gguf = (tensors: bigint, keys: bigint, ...rest: readonly Buffer[]) =>
  Buffer.concat([Buffer.from('GGUF\u0003\0\0\0', 'latin1'), u64(tensors), u64(keys), ...rest]);
const header = (text: string | Buffer, length = BigInt(text.length)) =>
  Buffer.concat([u64(length), Buffer.from(text)]);
const llama = (layers: string) =>
  `{"model_type":"llama","num_hidden_layers":${layers},"hidden_size":64,"num_attention_heads":2,"intermediate_size":64,"vocab_size":100}`;

/** A name, and how the thing of that name is made. */
const hostile: readonly (readonly [
  name: string,
  make: string | Buffer | ((path: string) => void),
])[] = [
  ['empty.json', ''],
  ['nothing-but-nul.json', '\0'.repeat(4096)],
  ['cut-off.json', '{"model_type":"llama","hidd'],
  ['not-utf8.json', Buffer.from('7b22ff223a317d', 'hex')],
  ['deep.json', '['.repeat(1_000_000)],
  ['digits.json', llama('9'.repeat(100_000))],
  ['layers.json', llama('9007199254740991')],
  ['below-zero.json', llama('-1')],
  ['prototype.json', '{"__proto__":{"model_type":"llama"}}'],
  ['ten-gigabytes.json', sparse(Buffer.alloc(0))],
  ['ten-gigabytes.safetensors', sparse(u64(99_000_000n))],
  ['ten-gigabytes.gguf', sparse(gguf(2n ** 40n, 2n ** 40n))],
  ['long-header.safetensors', header('{}', 2n ** 30n)],
  ['endless-header.safetensors', header('{}', 2n ** 64n - 1n)],
  ['deep.safetensors', header(`{"a":${'['.repeat(1_000_000)}`)],
  ['shape.safetensors', header('{"a":{"dtype":"F32","shape":[9007199254740992,9]}}')],
  ['tensors.gguf', gguf(1_000_000_000n, 0n)],
  ['key.gguf', gguf(0n, 1n, u64(2n ** 62n))],
  ['list.gguf', gguf(0n, 1n, u64(1n), Buffer.from('x\u0009\0\0\0\u0008\0\0\0'), u64(2n ** 60n))],
  ['pipe.json', pipe],
  ['pipe.safetensors', pipe],
  ['zero.gguf', (path) => symlinkSync('/dev/zero', path)],
  ['itself.json', (path) => symlinkSync(path, path)],
  ['folder.safetensors', (path) => mkdirSync(path)],
  [
    'with-a-pipe',
    (path) => {
      mkdirSync(path);
      pipe(join(path, 'config.json'));
    },
  ],
  ['out-of-here', sharded('../../../etc/passwd')],
  ['device', sharded('/dev/zero')],
];

/** Takes no room on the disk, and would take all memory if it were read. */
function sparse(start: Buffer): (path: string) => void {
  return (path) => {
    writeFileSync(path, start);
    truncateSync(path, 10 * GiB);
  };
}

function pipe(path: string): void {
  execFileSync('sh', ['-c', 'mkfifo "$0"', path]);
}

function sharded(file: string): (path: string) => void {
  return (path) => {
    mkdirSync(path);
    const index = JSON.stringify({ weight_map: { a: file } });
    writeFileSync(join(path, 'model.safetensors.index.json'), index);
  };
}

describe('readModel, given untrusted files', () => {
  it.each(hostile)('refuses %s in one line', async (name, make) => {
    const path = join(folder, name);
    if (typeof make === 'function') make(path);
    else writeFileSync(path, make);
    const error = await readModel(path).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(Failure);
    expect(error).toMatchObject({ kind: 'input', fact: expect.stringContaining(folder) });
    expect(String(error)).not.toMatch(/\p{Cc}/u);
    expect(String(error).length).toBeLessThan(1000);
  });
});
