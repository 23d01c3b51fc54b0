import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { jobFolders } from '../../../src/engine/slurm/job-folder.js';
import { root } from '../../support/project-files.js';
import {
  anyMoment,
  type EngineCommands,
  engineCommands,
  KillNotes,
  killCount,
} from '../engine-commands.js';
import { startCluster, type TestCluster } from './slurm-cluster.js';

let cluster: TestCluster;
let slurm: EngineCommands;
let home: string;
/** How often an administrator looks after the nodes. */
const administratorMs = 5000;

/** Each waits a minute for a controller that does not answer; one that was killed is started again at once. */
const maxSubmissions = 10;

beforeAll(async () => {
  cluster = await startCluster();
  home = join(cluster.folder, 'home');
  slurm = engineCommands({
    program: join(root, 'bin/plimsoll.js'),
    engine: ['--engine', 'slurm'],
    home,
    environment: cluster.environment,
  });
});
afterAll(() => cluster?.stop());

describe('a cluster of Slurm whose processes are killed', () => {
  it('loses and doubles no job', async () => {
    const notes = new KillNotes(cluster.folder);
    const names = new Map<string, string>();
    const submitted = async (name: string) => {
      // Until Slurm answers again; what it did not confirm may run or not.
      for (let attempt = 0; attempt < maxSubmissions; attempt++) {
        const own = `${name}-${attempt}`;
        const asked = ['--memory=64MiB', '--gpus=0', '--', ...notes.command(own)];
        const answer = await slurm.run('submit', '--json', ...asked);
        if (answer.code !== 0) process.stdout.write(`not taken: ${answer.stderr}`);
        if (answer.code !== 0) continue;
        const id = String(JSON.parse(answer.stdout).id);
        expect([...names.values()]).not.toContain(id);
        names.set(own, id);
        return { id, name: own };
      }
      throw new Error(`Slurm did not take ${name} in ${maxSubmissions} submissions`);
    };
    const administrator = setInterval(() => cluster.resumeNodes(), administratorMs);
    const rounds = killCount(2);
    for (let round = 0; round < rounds; round++) {
      await submitted(`controller-${round}`);
      await anyMoment();
      cluster.restartController();

      await submitted(`node-${round}`);
      await anyMoment();
      // One after another: a job may run on each of them.
      cluster.restartNode(['n1', 'n2', 'n3'][round % 3] ?? 'n1');

      const ours = await submitted(`ours-${round}`);
      await notes.killSupervisor(ours.name, round % 2 === 1);
      await slurm.untilEnded(ours.id);
    }
    const ended = await slurm.untilEnded(...names.values());
    clearInterval(administrator);
    const again = ended.filter((job) => job.notes.some((note) => note.includes('lost'))).length;
    process.stdout.write(`${rounds} kills of each kind; ${again} jobs that Slurm lost\n`);
    expect(ended.map(({ state, why }) => `${state} ${why}`)).toEqual(ended.map(() => 'succeeded '));
    expect(notes.faults([...names.keys()], (name) => name.startsWith('ours'))).toEqual([]);
    expect(startFaults([...names.keys()], notes)).toEqual([]);
  });
});

/** Jobs that ran more often than they were started, or again after a node had seen them succeed. */
function startFaults(names: readonly string[], notes: KillNotes): readonly string[] {
  const folders = jobFolders(home);
  return names.flatMap((name) => {
    const mark = notes.mark(name);
    const own = folders.filter((folder) => folder.order()?.command.join().includes(mark));
    const starts = own.flatMap((folder) => folder.turns('all', 1)).length;
    const succeeded = own.flatMap(({ path }) =>
      readdirSync(path)
        .filter((file) => /^report-.*\.json$/.test(file))
        .map((file) => JSON.parse(readFileSync(join(path, file), 'utf8')))
        .filter(({ outcome }) => outcome === 'succeeded'),
    ).length;
    const begun = notes.of(name).filter((note) => note === 'begun').length;
    const isFine = own.length === 1 && begun <= starts && succeeded === 1;
    return isFine ? [] : [`${name}: begun ${begun}, starts ${starts}, succeeded ${succeeded}`];
  });
}
