import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, rmdir, writeFile } from 'node:fs/promises';
import { tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterAll, describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import type { MemoryReading } from '../device.js';
import { findCgroup } from './cgroup-memory.js';
import { hostProvider } from './provider.js';

const limitBytes = 512 * MiB;
const heldBytes = 128 * MiB;
const run = promisify(execFile);

/** A cgroup with a limit of its own below ours, or why none can be made here. */
async function makeCgroup(): Promise<{ version: 1 | 2; folder: string } | { why: string }> {
  const place = findCgroup('/proc');
  const own = place?.folders[0];
  if (place === undefined || own === undefined) return { why: 'no memory cgroup is mounted' };
  const folder = join(own, `plimsoll-test-${process.pid}`);
  try {
    await mkdir(folder);
  } catch (error) {
    return { why: `no cgroup can be made (${String(error)})` };
  }
  const file = place.version === 1 ? 'memory.limit_in_bytes' : 'memory.max';
  try {
    await writeFile(join(folder, file), String(limitBytes));
  } catch (error) {
    await rmdir(folder);
    return { why: `no limit can be set (${String(error)})` };
  }
  return { version: place.version, folder };
}

const cgroup = await makeCgroup();
const canLimit = !('why' in cgroup);
const title =
  'why' in cgroup
    ? `the plain RAM, because here ${cgroup.why}`
    : 'the limit of the cgroup, of which the process uses what it holds';

afterAll(async () => {
  if (!('why' in cgroup)) await rmdir(cgroup.folder);
});

describe('the capacity of the host in a real cgroup', () => {
  it(`is ${title}`, async () => {
    const reading = 'why' in cgroup ? await readHere() : await readInside(cgroup.folder);
    const limit = reading.host?.limitBytes;
    expect(limit === limitBytes).toBe(canLimit);
    expect(reading.totalBytes).toBe(limit === 'none' ? totalmem() : limit);
    expect(reading.host?.limitedBy === 'ram').toBe(limit === 'none');
    expect(reading.usedBytes).toBeGreaterThan(canLimit ? heldBytes : 0);
    expect(Number(reading.usedBytes) + Number(reading.freeBytes)).toBeLessThanOrEqual(
      Number(reading.totalBytes),
    );
  });
});

async function readHere(): Promise<MemoryReading> {
  const [host] = (await hostProvider().list()).devices;
  if (host === undefined) throw new Error('no host');
  return host.read();
}

/** Reads from a process that starts in the cgroup and holds some memory. */
async function readInside(folder: string): Promise<MemoryReading> {
  const workplace = await mkdtemp(join(tmpdir(), 'plimsoll-cgroup-'));
  try {
    const program = join(workplace, 'child.mjs');
    await build({
      stdin: {
        contents: `import { hostProvider } from './provider.js';
          const held = Buffer.alloc(${heldBytes}, 7);
          const { devices } = await hostProvider().list();
          console.log(JSON.stringify(devices[0].read()));
          if (held[0] !== 7) process.exit(1);`,
        resolveDir: fileURLToPath(new URL('.', import.meta.url)),
      },
      bundle: true,
      format: 'esm',
      platform: 'node',
      outfile: program,
    });
    const enter = 'echo $$ > "$1/cgroup.procs" && exec "$2" "$3"';
    const { stdout } = await run('sh', ['-c', enter, 'sh', folder, process.execPath, program]);
    return JSON.parse(stdout);
  } finally {
    await rm(workplace, { recursive: true });
  }
}
