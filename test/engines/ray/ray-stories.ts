import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { ClusterEngine } from '../../../src/engine/cluster.js';
import { GiB, MiB } from '../../../src/units/bytes.js';
import type { EngineCommands } from '../engine-commands.js';
import { anyMoment, KillNotes, killCount } from '../engine-commands.js';
import { seenProcesses, takingMemory } from '../processes.js';
import type { RayTestCluster } from './ray-cluster.js';

/** A cluster, and a person who uses it. */
export interface RayUnderTest {
  readonly cluster: RayTestCluster;
  readonly ray: EngineCommands;
  readonly engine: ClusterEngine;
}

const onHost = ['--memory=64MiB', '--gpus=0'];

/** What people do with a cluster of Ray, and what happens to them. */
export function rayStories(under: () => RayUnderTest): void {
  it('packs jobs of mixed needs, and no GPU is over its line', async () => {
    const { cluster, ray, engine } = under();
    const notes = join(cluster.folder, 'packed');
    const gate = join(cluster.folder, 'gate');
    writeFileSync(notes, '');
    // The largest two fit the H200 alone, and not both at once; the others are more than four A100 hold.
    const needs = [5, 12, 20, 30, 47, 70, 100, 5, 12, 20, 30, 47, 70, 90, 30, 20, 12, 47];
    const ids: string[] = [];
    for (const gib of needs) {
      const note = (what: string) =>
        `echo ${what} \${TEST_NODE##*/}/gpu:$CUDA_VISIBLE_DEVICES ${gib} >> ${notes}`;
      const wait = `while [ ! -e ${gate} ]; do sleep 0.2; done`;
      const script = `${note('+')}; ${wait}; ${note('-')}`;
      ids.push((await ray.submit(`--memory=${gib}GiB`, '--', 'sh', '-c', script)).id);
    }
    const noted = () => readFileSync(notes, 'utf8').trim().split('\n');
    // All that is there runs at once; five of them are on four cards.
    await expect.poll(() => noted().length).toBeGreaterThanOrEqual(7);
    writeFileSync(gate, '');
    const ended = await ray.untilEnded(...ids);
    for (const { id, state, why } of ended) {
      const log = state === 'succeeded' ? '' : (await ray.run('logs', id)).stdout;
      expect(`${state} ${why}${log}`).toBe('succeeded ');
    }
    expect(noted()).toHaveLength(2 * needs.length);
    const capacities = new Map(
      (await engine.devices()).map(({ name, capacityBytes }) => [name, capacityBytes]),
    );
    const held = new Map<string, number>();
    const most = new Map<string, number>();
    for (const line of noted()) {
      const [sign = '', device = '', gib = '0'] = line.split(' ');
      expect(capacities.get(device)).toBeTypeOf('number');
      const bytes = Number(gib) * GiB * (sign === '+' ? 1 : -1);
      held.set(device, (held.get(device) ?? 0) + bytes);
      most.set(device, Math.max(most.get(device) ?? 0, held.get(device) ?? 0));
    }
    for (const [device, bytes] of most) {
      expect(bytes).toBeLessThanOrEqual(Number(capacities.get(device)));
    }
    // Some shared a GPU: otherwise nothing was packed.
    expect([...most.values()].some((bytes) => !needs.includes(bytes / GiB))).toBe(true);
  });

  it('submits a job that runs out of memory twice a third time, with a larger share', async () => {
    const { ray } = under();
    const { id } = await ray.submit('--memory=64MiB', '--', ...takingMemory(200 * MiB));
    const [ended] = await ray.untilEnded(id);
    expect(ended?.attempts.map(({ outOfMemory }) => outOfMemory)).toEqual([true, true, false]);
    expect(ended).toMatchObject({ state: 'succeeded', gpus: 1 });
    const [first = 0, second = 0, third = 0] =
      ended?.attempts.map(({ request }) => Number(/num_gpus=([\d.]+)/.exec(request)?.[1])) ?? [];
    expect([first > 0, second > first, third > second]).toEqual([true, true, true]);
    expect(ended?.attempts.at(-1)?.peakBytes).toBeGreaterThan(200 * MiB);
    const { stdout } = await ray.run('logs', id);
    expect(stdout.match(/Submitted again as job/g)).toHaveLength(2);
    expect(stdout.match(/^took /gm)).toHaveLength(1);
  });

  it('cancels a waiting and a running job, and ends what runs', async () => {
    const { ray } = under();
    const mark = `${1_000_000 + process.pid}`;
    const running = await ray.submit(...onHost, '--', 'sleep', mark);
    const nowhere = '--entrypoint-resources={"away": 1000}';
    const waiting = await ray.submit(...onHost, nowhere, '--', 'sleep', mark);
    await ray.until([running.id], ({ state }) => state !== 'waiting');
    const sleeping = () => seenProcesses().filter(({ command }) => command === `sleep ${mark}`);
    await expect.poll(sleeping).toHaveLength(1);
    expect(await ray.run('cancel', waiting.id, running.id)).toMatchObject({ code: 0, stderr: '' });
    const ended = await ray.untilEnded(running.id, waiting.id);
    expect(ended.map(({ state }) => state)).toEqual(['cancelled', 'cancelled']);
    await expect.poll(sleeping).toEqual([]);
    const again = await ray.run('cancel', running.id);
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('job-has-ended') });
  });

  it('submits the job of a node that vanished again, which waits for such a node', async () => {
    const { cluster, ray } = under();
    const notes = join(cluster.folder, 'vanished');
    writeFileSync(notes, '');
    // Its first start would last for ever.
    const script = `echo \${TEST_NODE##*/} >> ${notes}; [ $(wc -l < ${notes}) -gt 1 ] || sleep 1000000`;
    const { id } = await ray.submit('--memory=100GiB', '--', 'sh', '-c', script);
    await expect.poll(() => readFileSync(notes, 'utf8')).toBe('n3\n');
    cluster.killNode('n3');
    const [lost] = await ray.until([id], ({ attempts }) => attempts[0]?.clusterId === `${id}.1`);
    expect(lost).toMatchObject({ state: 'waiting', attempts: [{ number: 1 }] });
    await cluster.startNode('n3');
    const [ended] = await ray.untilEnded(id);
    expect(ended).toMatchObject({ state: 'succeeded', nodes: 'n3', attempts: [{ exitCode: 0 }] });
    expect(readFileSync(notes, 'utf8')).toBe('n3\nn3\n');
  });
}

/** SIGKILL at random moments to everything that has a part in a job. */
export function rayKills(under: () => RayUnderTest): void {
  it('loses and doubles no job while processes and nodes are killed', async () => {
    const { cluster, ray } = under();
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
      await notes.killSupervisor(ours.name);
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
      for (const part of ['manager', 'gcs'] as const) {
        await submitted(`${part}-${round}`);
        await anyMoment();
        await cluster.killHead(part);
      }
    }
    const ended = await ray.untilEnded(...names.values());
    expect(ended.map(({ state, why }) => `${state} ${why}`)).toEqual(ended.map(() => 'succeeded '));
    expect(notes.faults([...names.keys()], (name) => /^(api|ours)/.test(name))).toEqual([]);
  });
}
