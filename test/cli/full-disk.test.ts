import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { takeRun } from '../../src/run/store/supervisor-lock.js';
import { until } from '../run/running.js';
import { fillDisk, needsSmallDisk, smallDisk } from '../support/small-disk.js';
import { useCommand } from './command.js';
import { useHome } from './served.js';

const command = useCommand();

describe('a disk that runs full under the server', needsSmallDisk, () => {
  it('refuses what cannot be kept, loses nothing, and recovers', async () => {
    const home = useHome(command);
    smallDisk(home.path);
    const { url, ask } = await home.serve();
    const go = join(command.folder(), 'go');
    const wait = `touch '${go}.begun'; until [ -e '${go}' ]; do sleep 0.1; done; echo done; touch '${go}.ended'; exit 3`;
    expect((await home.run(['submit', '--memory', '64MiB', '--', 'sh', '-c', wait])).exitCode).toBe(
      0,
    );
    await until(() => (existsSync(`${go}.begun`) ? true : undefined));

    const filler = fillDisk(home.path);
    // What is left over in half-filled blocks goes as well, job by job.
    const refused = await until(async () => {
      const argv = ['submit', '--memory', '64MiB', '--', 'sh', '-c', `: ${'x'.repeat(20_000)}`];
      const ended = await home.run(argv);
      // A smaller change that still finds a place is a sign that there is some: then one more.
      const { status } = await fetch(`${url}/healthz`);
      return ended.exitCode === 0 || status !== 503 ? undefined : ended;
    });
    expect(refused.exitCode).toBe(3);
    expect(refused.stderr).toMatch(/disk-full: .*the disk is full.* Make room/);
    expect((await ask('/jobs/1')).status).toBe(200);

    writeFileSync(go, '');
    await until(() => (existsSync(`${go}.ended`) ? true : undefined));
    rmSync(filler);
    await until(async () => ((await fetch(`${url}/healthz`)).status === 200 ? true : undefined));
    await until(async () =>
      (await home.json(['jobs', '1']))['state'] === 'failed' ? true : undefined,
    );
    expect(await home.json(['jobs', '1'])).toMatchObject({
      reason: 'It ended with exit code 3.',
      attempts: [{ number: 1, exitCode: 3 }],
    });
    const after = await home.run(['submit', '--wait', '--memory', '64MiB', '--', 'true']);
    expect(after.exitCode).toBe(0);
  });

  it('begins a job when there is room, which was accepted just before the disk ran full', async () => {
    const home = useHome(command);
    smallDisk(home.path);
    await home.serve();
    const begun = join(command.folder(), 'begun');
    const argv = ['submit', '--memory', '64MiB', '--', 'sh', '-c', `echo x >> '${begun}'; exit 3`];
    expect((await home.run(argv)).exitCode).toBe(0);
    // The server may be about to start its supervisor, which may be anywhere between its start and its end.
    const filler = fillDisk(home.path);
    const state = async () => (await home.json(['jobs', '1']))['state'];
    expect(await state()).toMatch(/^(waiting|running|failed)$/);
    rmSync(filler);
    await until(async () => ((await state()) === 'failed' ? true : undefined));
    expect(await home.json(['jobs', '1'])).toMatchObject({
      reason: 'It ended with exit code 3.',
      attempts: [{ number: 1, exitCode: 3 }],
    });
    expect(readFileSync(begun, 'utf8')).toBe('x\n');
  });

  it('ends no program that prints; its log says that something is missing', async () => {
    const home = useHome(command);
    smallDisk(home.path);
    await home.serve();
    const [printed, go] = [join(command.folder(), 'printed'), join(command.folder(), 'go-on')];
    const loud = `yes step | head -c 8000000 && touch '${printed}'; until [ -e '${go}' ]; do sleep 0.1; done; echo back; exit 3`;
    await home.run(['submit', '--memory', '64MiB', '--', 'sh', '-c', loud]);
    await until(() => (existsSync(printed) ? true : undefined));
    // As a person would who finds the disk full.
    truncateSync(join(home.path, 'jobs', '1', 'log'), 0);
    writeFileSync(go, '');
    await until(async () =>
      (await home.json(['jobs', '1']))['state'] === 'failed' ? true : undefined,
    );
    expect(await home.json(['jobs', '1'])).toMatchObject({
      reason: 'It ended with exit code 3.',
    });
    const { stdout } = await home.run(['logs', '1']);
    expect(stdout).toMatch(
      /\nplimsoll: the disk was full: some of what was printed is missing here\.\n[step\n]*back\n/,
    );
  });

  it('lets every job be cancelled, the one that fills it too, and keeps that over a kill', async () => {
    const home = useHome(command);
    smallDisk(home.path);
    const first = await home.serve([], { MAX_CONCURRENT_JOBS: '1' });
    const filled = join(home.path, 'filled');
    const ended = join(command.folder(), 'filler-ended');
    const go = join(command.folder(), 'go-fill');
    const fill = `trap "touch '${ended}'; exit 1" TERM; until [ -e '${go}' ]; do sleep 0.1; done; cat /dev/zero > '${filled}' 2>/dev/null; while :; do sleep 0.1; done`;
    await home.run(['submit', '--memory', '64MiB', '--', 'sh', '-c', fill]);
    await home.run(['submit', '--memory', '64MiB', '--', 'true']);
    writeFileSync(go, '');
    const submit = ['submit', '--memory', '64MiB', '--', 'sh', '-c', `: ${'x'.repeat(20_000)}`];
    let more = 0;
    await until(async () => {
      if (!existsSync(filled)) return undefined;
      const { exitCode } = await home.run(submit);
      if (exitCode !== 0) return true;
      more++;
      return undefined;
    });
    const all = Array.from({ length: more + 2 }, (_, index) => String(index + 1));
    for (const id of all.toReversed()) {
      const cancelled = await first.ask(`/jobs/${id}`, { method: 'DELETE' });
      expect([id, cancelled.status]).toEqual([id, 200]);
    }
    await until(() => (existsSync(ended) ? true : undefined));
    first.kill('SIGKILL');
    await first.ended;
    rmSync(filled);
    await home.serve();
    for (const id of all) {
      const state = async () => (await home.json(['jobs', id]))['state'];
      await until(async () => ((await state()) === 'running' ? undefined : true));
      expect([id, await state()]).toEqual([id, 'cancelled']);
    }
  });
});

describe('the right to supervise a run, on a full disk', needsSmallDisk, () => {
  it('cannot be taken, and leaves no file behind', () => {
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-full-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    smallDisk(folder);
    fillDisk(folder);
    expect(() => takeRun(folder, '/proc')).toThrow('ENOSPC');
    expect(readdirSync(folder)).toEqual(['filler']);
  });
});
