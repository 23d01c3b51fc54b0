import { expect, it } from 'vitest';
import { anyMoment, KillNotes, killCount } from '../kills.js';
import { onHost, type RayUnderTest } from './ray-stories.js';

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
