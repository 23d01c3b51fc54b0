import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ClusterEngine } from '../../../src/engine/cluster.js';
import { engineConformance } from '../../../src/engine/conformance.suite.js';
import { rayHttp } from '../../../src/engine/ray/http.js';
import { rayEngine } from '../../../src/engine/ray/ray-engine.js';
import { root } from '../../support/project-files.js';
import { type EngineCommands, engineCommands } from '../engine-commands.js';
import { takingMemory } from '../processes.js';
import { oneNode, type RayTestCluster, rayPythonOf, startRay, threeNodes } from './ray-cluster.js';
import { rayKills, rayStories } from './ray-stories.js';

const program = join(root, 'bin/plimsoll.js');
let cluster: RayTestCluster;
let ray: EngineCommands;

describe('a cluster of three nodes', () => {
  beforeAll(async () => {
    cluster = await startRay(threeNodes);
    ray = engineCommands({
      program,
      engine: ['--engine', 'ray', '--address', cluster.address],
      home: join(cluster.folder, 'home'),
    });
  });
  afterAll(() => cluster?.stop());

  engineConformance('ray', async () => ({
    engine: engineIn('conformance'),
    cwd: cluster.folder,
    taking: takingMemory,
    does: { asksAgain: true, previews: true },
    close: () => {},
  }));

  it('says what is wrong where there is no head', async () => {
    const answer = await ray.plain(['jobs', '--engine=ray', '--address=http://127.0.0.1:1']);
    expect(answer).toMatchObject({ code: 3, stderr: expect.stringContaining('no-ray-head') });
  });

  rayStories(() => ({ cluster, ray, engine: engineIn('conformance') }));
  rayKills(() => ({ cluster, ray, engine: engineIn('conformance') }));
});

/** With jobs of its own. */
function engineIn(home: string): ClusterEngine {
  return rayEngine({
    home: join(cluster.folder, home),
    http: rayHttp(cluster.address, { environment: {} }),
    plimsoll: [process.execPath, program],
    environment: { PATH: process.env['PATH'] ?? '' },
    settings: {},
    gpus: [],
  });
}

/** The account that has the least; where the test is not run by root, its own is none of root either. */
const id = process.getuid?.() === 0 ? 65_534 : (process.getuid?.() ?? 0);
const python = rayPythonOf(id);
let lone: RayTestCluster;
let asUser: EngineCommands;

describe('Ray of a user who is not root', () => {
  beforeAll(async () => {
    if (python === undefined) throw new Error(`The account ${id} can run no Python with Ray.`);
    lone = await startRay([oneNode], { id, python });
    asUser = engineCommands({
      program: join(root, 'bin/plimsoll.js'),
      engine: ['--engine', 'ray', '--address', lone.address],
      home: join(lone.folder, 'home'),
      account: id,
    });
  });
  afterAll(() => lone?.stop());

  it('runs their jobs as them, with more memory after out-of-memory', async () => {
    const words = ['--memory=64MiB', '--gpus=0', '--'];
    const named = await asUser.submit(...words, 'sh', '-c', 'id -u; sleep 1');
    const grown = await asUser.submit(...words, ...takingMemory(100 * 2 ** 20));
    const ended = await asUser.untilEnded(named.id, grown.id);
    expect(ended.map(({ state, why }) => `${state} ${why}`)).toEqual(['succeeded ', 'succeeded ']);
    expect(ended[1]?.attempts.map(({ outOfMemory }) => outOfMemory)).toEqual([true, false]);
    const { stdout } = await asUser.run('logs', named.id);
    expect(stdout).toContain(`${id}\n`);
  });

  it('reports peaks of Ray Train back, and that it ran out of memory', async () => {
    const program = join(root, 'test/engines/ray/train_peaks.py');
    const storage = join(lone.folder, 'home', 'results');
    const path = [join(root, 'python'), python?.path ?? ''].join(delimiter);
    const words = ['--gpus=0', `--env=PYTHONPATH=${path}`, '--', python?.program ?? ''];
    const job = await asUser.submit(...words, program, storage);
    const [ended] = await asUser.untilEnded(job.id);
    const { stdout } = await asUser.run('logs', job.id);
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
