import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ClusterEngine } from '../../../src/engine/cluster.js';
import { engineConformance } from '../../../src/engine/conformance.suite.js';
import { rayHttp } from '../../../src/engine/ray/http.js';
import { rayEngine } from '../../../src/engine/ray/ray-engine.js';
import { root } from '../../support/project-files.js';
import { type EngineCommands, engineCommands } from '../engine-commands.js';
import { takingMemory } from '../taking-memory.js';
import { type RayTestCluster, startRay } from './ray-cluster.js';
import { rayKills } from './ray-kills.js';
import { threeNodes } from './ray-nodes.js';
import { rayStories } from './ray-stories.js';

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
