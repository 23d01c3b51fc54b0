import { chmodSync, cpSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { gpt2TraceText } from '../../src/estimate/trace/traces-for-tests.js';
import { GiB } from '../../src/units/bytes.js';
import { textOf, until } from '../run/running.js';
import { needsTorch, tracingPython as python } from '../support/needs.js';
import { root } from '../support/project-files.js';
import { useCommand } from './command.js';
import { useHome } from './served.js';

const command = useCommand();

/** A server with a simulated GPU of 24 GiB, of which nothing is used. */
async function servingGpu() {
  const home = useHome(command);
  const trace = join(command.folder(), 'idle.json');
  const columns = ['seconds', 'allocated', 'reserved', 'device_used'];
  const rows = [0, 1].map((seconds) => [seconds, 0, 0, 0]);
  writeFileSync(trace, JSON.stringify({ capacity: 24 * GiB, columns, rows }));
  const simulated = { PLIMSOLL_SIMULATE: trace };
  const serving = await home.serve([], simulated);
  return { home, serving, simulated };
}

/** In Python's place: takes its time to trace, then runs out of it; as a job it ends at once. */
function slowPython(): string {
  const path = join(command.folder(), 'python3');
  writeFileSync(path, '#!/bin/sh\ncase "$*" in *plimsoll_trace*) exec sleep 1000;; esac\n');
  chmodSync(path, 0o755);
  return path;
}

/** Its trace ends once there is a file `go`; each notes its process. */
function gatedPython(): string {
  const folder = command.folder();
  writeFileSync(join(folder, 'gpt2.jsonl'), gpt2TraceText());
  const path = join(folder, 'python');
  const script = `#!/bin/sh
case "$*" in *plimsoll_trace*) ;; *) exit 0;; esac
while [ "$1" != --output ]; do shift; done
echo $$ >> '${folder}/pids'
while [ ! -e '${folder}/go' ]; do sleep 0.05; done
cp '${folder}/gpt2.jsonl' "$2"
`;
  writeFileSync(path, script, { mode: 0o755 });
  return path;
}

/** Or waits for a parent to ask how it ended. */
function hasEnded(pid: number): boolean {
  return / Z |^$/.test(textOf(`/proc/${pid}/stat`) ?? '');
}

describe('plimsoll submit -- python train.py, with nothing stated', () => {
  it('falls back to a whole device where the trace takes too long, and answers meanwhile', async () => {
    const { home, serving } = await servingGpu();
    const words = ['--estimate-timeout', '2', '--', slowPython(), 'train.py'];
    const submitted = await home.json(['submit', ...words]);
    const waiting = { whyDetails: { code: 'estimating' } };
    expect(submitted).toMatchObject({ state: 'waiting', waiting });
    expect((await serving.ask('/healthz')).status).toBe(200);
    const job = await home.estimated(submitted['id']);
    expect(job).toMatchObject({ need: { basis: 'unknown', estimatedBytes: 'unknown' } });
    expect(JSON.stringify(job['need'])).toContain(
      'It could not be traced: The trace took longer than 2 s and was ended.',
    );
  });

  it('is traced again after a kill -9 of the server, and no more once it is cancelled', async () => {
    const { home, serving, simulated } = await servingGpu();
    const folder = command.folder();
    const pids = () => (textOf(join(folder, 'pids')) ?? '').split('\n').filter((pid) => pid !== '');
    const started = (count: number) => until(() => (pids().length === count ? true : undefined));
    const words = ['--', gatedPython(), 'train.py'];
    const { id } = await home.json(['submit', ...words]);
    await started(1);
    serving.kill('SIGKILL');
    await serving.ended;
    await home.serve([], simulated);
    await started(2);
    const { id: second } = await home.json(['submit', ...words, '--second']);
    const { id: third } = await home.json(['submit', ...words, '--third']);
    const waiting = { why: 'Its memory will be estimated after 2 other jobs of its owner.' };
    expect(await home.json(['jobs', String(third)])).toMatchObject({ waiting });
    await home.run(['cancel', String(third)]);
    writeFileSync(join(folder, 'go'), '');
    const need = { basis: 'estimated', whyDetails: { traced: true } };
    expect(await home.estimated(id)).toMatchObject({ need });
    rmSync(join(folder, 'go'));
    await started(3);
    await home.run(['cancel', String(second)]);
    await until(() => (hasEnded(Number(pids()[2])) ? true : undefined));
    expect(pids()).toHaveLength(3);
  });

  it('does not trace where it is told so, and refuses a time that is none', async () => {
    const { home } = await servingGpu();
    const job = await home.json(['submit', '--estimate-timeout=0', '--', slowPython(), 't.py']);
    expect(JSON.stringify(job['need'])).not.toContain('traced');
    const bad = await home.run(['submit', '--estimate-timeout', 'soon', '--', 'python3', 't.py']);
    expect(bad.exitCode).toBe(2);
    expect(bad.stderr).toContain('--estimate-timeout');
  });

  it('reserves what a real trace found, and keeps the answer', needsTorch, async () => {
    const { home } = await servingGpu();
    const folder = command.folder();
    cpSync(join(root, 'test/fixtures/programs/train_small.py'), join(folder, 'train_small.py'));
    const words = ['--estimate-timeout', '600', '--gpus', '1', '--', python, 'train_small.py'];
    const submitted = await home.json(['submit', ...words, '--batch-size', '64']);
    const first = await home.estimated(submitted['id']);
    const need: { bytes: number; why: string; basis: string } = JSON.parse(
      JSON.stringify(first['need']),
    );
    expect(need.basis).toBe('estimated');
    expect(need.why).toContain('The program was traced before its first run.');
    // 146 MiB of PyTorch's and the context of the card; far from the whole device.
    expect(need.bytes).toBeGreaterThan(0.5 * GiB);
    expect(need.bytes).toBeLessThan(2 * GiB);
    expect(existsSync(join(folder, 'small.pt'))).toBe(false);
  });
});
