import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { root } from '../../support/project-files.js';
import { type EngineCommands, engineCommands } from '../engine-commands.js';
import { takingMemory } from '../taking-memory.js';
import { type RayTestCluster, startRay } from './ray-cluster.js';
import { oneNode } from './ray-nodes.js';
import { rayPythonOf } from './ray-packages.js';

/** The account that has the least; where the test is not run by root, its own is none of root either. */
const id = process.getuid?.() === 0 ? 65_534 : (process.getuid?.() ?? 0);
const python = rayPythonOf(id);
let cluster: RayTestCluster;
let ray: EngineCommands;

describe('Ray of a user who is not root', () => {
  beforeAll(async () => {
    if (python === undefined) throw new Error(`The account ${id} can run no Python with Ray.`);
    cluster = await startRay([oneNode], { id, python });
    ray = engineCommands({
      program: join(root, 'bin/plimsoll.js'),
      engine: ['--engine', 'ray', '--address', cluster.address],
      home: join(cluster.folder, 'home'),
      account: id,
    });
  });
  afterAll(() => cluster?.stop());

  it('runs their jobs as them, with more memory after out-of-memory', async () => {
    const words = ['--memory=64MiB', '--gpus=0', '--'];
    const named = await ray.submit(...words, 'sh', '-c', 'id -u; sleep 1');
    const grown = await ray.submit(...words, ...takingMemory(100 * 2 ** 20));
    const ended = await ray.untilEnded(named.id, grown.id);
    expect(ended.map(({ state, why }) => `${state} ${why}`)).toEqual(['succeeded ', 'succeeded ']);
    expect(ended[1]?.attempts.map(({ outOfMemory }) => outOfMemory)).toEqual([true, false]);
    const { stdout } = await ray.run('logs', named.id);
    expect(stdout).toContain(`${id}\n`);
  });

  it('reports peaks of Ray Train back, and that it ran out of memory', async () => {
    const program = join(root, 'test/engines/ray/train_peaks.py');
    const storage = join(cluster.folder, 'home', 'results');
    const path = [join(root, 'python'), python?.path ?? ''].join(delimiter);
    const words = ['--gpus=0', `--env=PYTHONPATH=${path}`, '--', python?.program ?? ''];
    const job = await ray.submit(...words, program, storage);
    const [ended] = await ray.untilEnded(job.id);
    const { stdout } = await ray.run('logs', job.id);
    expect({ state: ended?.state, stdout }).toMatchObject({ state: 'succeeded' });
    const line = stdout.split('\n').findLast((one) => one.startsWith('{"before"')) ?? '';
    const { before, first, peaks, after, second, more } = JSON.parse(line);
    expect([before.basis, after.basis, more.basis]).toEqual(['estimated', 'measured', 'measured']);
    expect([first, second]).toEqual(['well', 'WorkerGroupError']);
    expect(after.needBytes).toBeGreaterThanOrEqual(Math.max(...peaks));
    expect(after.share).toBeLessThan(before.share);
    expect(more.needBytes).toBeGreaterThan(after.needBytes);
  });
});
