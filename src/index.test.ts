import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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
