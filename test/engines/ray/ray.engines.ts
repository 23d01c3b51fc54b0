import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { engineConformance } from '../../../src/engine/conformance.suite.js';
import { rayHttp } from '../../../src/engine/ray/http.js';
import { rayEngine } from '../../../src/engine/ray/ray-engine.js';
import { root } from '../../support/project-files.js';
import { type EngineCommands, engineCommands } from '../engine-commands.js';
import { anyMoment, KillNotes, killCount, killSupervisor } from '../kills.js';
import { takingMemory } from '../taking-memory.js';
import { type RayTestCluster, startRay } from './ray-cluster.js';
import { threeNodes } from './ray-nodes.js';

const program = join(root, 'bin/plimsoll.js');
const onHost = ['--memory=64MiB', '--gpus=0'];
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
    engine: rayEngine({
      home: join(cluster.folder, 'conformance'),
      http: rayHttp(cluster.address, { environment: {} }),
      plimsoll: [process.execPath, program],
      environment: { PATH: process.env['PATH'] ?? '' },
      settings: {},
      gpus: [],
    }),
    cwd: cluster.folder,
    taking: takingMemory,
    does: { asksAgain: true, previews: true },
    close: () => {},
  }));

  it('says what is wrong where there is no head', async () => {
    const answer = await ray.plain(['jobs', '--engine=ray', '--address=http://127.0.0.1:1']);
    expect(answer).toMatchObject({ code: 3, stderr: expect.stringContaining('no-ray-head') });
  });

  it('loses and doubles no job while processes and nodes are killed', async () => {
    const notes = new KillNotes(cluster.folder);
    const names = new Map<string, string>();
    const submitted = async (name: string, ...words: readonly string[]) => {
      // Until Ray answers again; what it did not confirm may run or not.
      for (let attempt = 0; ; attempt++) {
        const own = `${name}-${attempt}`;
        const asked = [...onHost, ...words, '--', ...notes.command(own)];
        const answer = await ray.run('submit', '--json', ...asked);
        if (answer.code !== 0) process.stdout.write(`not taken: ${answer.stderr}`);
        if (answer.code !== 0) continue;
        const { id } = JSON.parse(answer.stdout);
        names.set(own, id);
        return { id: String(id), name: own };
      }
    };
    for (let round = 0; round < killCount(1); round++) {
      const api = await submitted(`api-${round}`);
      await anyMoment();
      cluster.killJobHead();
      const ours = await submitted(`ours-${round}`);
      await killSupervisor(notes.mark(ours.name));
      // What is killed next may be what they run on.
      await ray.untilEnded(api.id, ours.id);

      const actor = await submitted(`actor-${round}`);
      await anyMoment();
      cluster.killJobSupervisor(actor.id.split('-').at(-1) ?? 'none');

      await submitted(`node-${round}`, '--entrypoint-resources={"away": 1}');
      await anyMoment();
      const lost = round % 2 === 0 ? 'n2' : 'n3';
      cluster.killNode(lost);
      await cluster.startNode(lost);
    }
    for (let round = 0; round < killCount(1); round++) {
      await submitted(`manager-${round}`);
      await anyMoment();
      await cluster.killJobManager();
    }
    const ended = await ray.untilEnded(...names.values());
    expect(ended.map(({ state, why }) => `${state} ${why}`)).toEqual(ended.map(() => 'succeeded '));
    expect(notes.faults([...names.keys()], (name) => /^(api|ours)/.test(name))).toEqual([]);
  });
});
