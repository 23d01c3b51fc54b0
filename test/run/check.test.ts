import { chmodSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { assumedContext } from '../../src/estimate/cards/gpu-table.js';
import type { RunReport } from '../../src/run/types.js';
import { GiB } from '../../src/units/bytes.js';
import { useCommand } from '../cli/command.js';

const command = useCommand();

/** In Python's place: a trace of so many bytes; as a program it notes that it was started. */
function pythonWith(traced: string): string {
  const path = join(command.folder(), 'python3');
  const find = 'for word; do [ "$last" = --output ] && output=$word; last=$word; done';
  const trace = [
    '{"plimsoll":"trace","version":1,"torch":"2.11.0","workload":{"program":["train.py"]}}',
    '["s",0,""]',
    '["m","phase:steady steps"]',
    '["a",1,12884901888,0,0,"w"]',
    '{"end":true,"parameters":1,"parameterBytes":4,"notes":[]}',
  ].join('\n');
  const tracing = `${find}\n${traced}\ncat > "$output" <<'END'\n${trace}\nEND\nexit 0`;
  const script = `#!/bin/sh\ncase "$*" in *plimsoll_trace*)\n${tracing}\n;; esac\necho started > '${command.folder()}/started'\nexit 7\n`;
  writeFileSync(path, script);
  chmodSync(path, 0o755);
  return path;
}

/** The file of a simulated GPU. */
function simulatedGpu(totalGiB: number): string {
  const simulated = join(command.folder(), 'gpu.json');
  const columns = ['seconds', 'allocated', 'reserved', 'device_used'];
  const rows = [0, 1].map((seconds) => [seconds, 0, 0, 0]);
  writeFileSync(simulated, JSON.stringify({ capacity: totalGiB * GiB, columns, rows }));
  return simulated;
}

/** Beside a simulated GPU. */
function check(totalGiB: number, argv: readonly string[], traced = ':') {
  const words = ['run', '--check', ...argv, '--', pythonWith(traced), 'train.py'];
  return command.run(words, { environment: { PLIMSOLL_SIMULATE: simulatedGpu(totalGiB) } });
}

const started = () => existsSync(join(command.folder(), 'started'));

beforeEach(() => {
  for (const name of ['started', 'tracing']) rmSync(join(command.folder(), name), { force: true });
});

describe('plimsoll run --memory, on a GPU', () => {
  const run = async (...argv: readonly string[]) => {
    const words = ['run', ...argv, '--json', '--', 'sh', '-c', 'echo $PLIMSOLL_MEMORY_BYTES'];
    const environment = { PLIMSOLL_SIMULATE: simulatedGpu(24) };
    const { stdout, stderr, exitCode } = await command.run(words, { environment });
    const report: RunReport | undefined = stdout === '' ? undefined : JSON.parse(stdout);
    return { limit: report?.attempts[0]?.limit, stderr, exitCode };
  };

  it('has the CUDA context in it; --allocator-memory has not', async () => {
    const device = await run('--memory', '8GiB');
    const bytes = 8 * GiB - assumedContext.bytes;
    expect(device.limit).toMatchObject({ bytes, by: 'sdk' });
    expect(device.limit?.why).toContain('The CUDA context takes about 500 MiB beside it');
    expect(device.stderr).toContain(`${bytes}\n`);
    const allocator = await run('--allocator-memory', '8GiB');
    expect(allocator.limit).toMatchObject({ bytes: 8 * GiB, by: 'sdk' });
    expect(allocator.stderr).toContain(`${8 * GiB}\n`);
  });

  it('is refused where the context alone would take it, and beside the other', async () => {
    const tiny = await run('--memory', '400MiB');
    expect(tiny.exitCode).toBe(2);
    expect(tiny.stderr).toContain('memory-too-small: A budget of 400 MiB leaves nothing');
    const both = await run('--memory', '8GiB', '--allocator-memory', '8GiB');
    expect(both.exitCode).toBe(2);
    expect(both.stderr).toContain('Both --memory and --allocator-memory were given.');
  });
});

describe('plimsoll run --check', () => {
  it('does not start what surely does not fit, and says the figures', async () => {
    const { exitCode, stderr, stdout } = await check(8, []);
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toMatch(/does-not-fit: The program needs 1\d\.\d GiB \(estimated, by trace\)/);
    expect(stderr).toContain('there are 8.0 GiB on gpu:0');
    const limited = await check(24, ['--memory', '2GiB', '--json']);
    expect(limited.exitCode).toBe(1);
    expect(JSON.parse(limited.stdout)).toMatchObject({ outcome: 'refused', fits: false });
    expect(started()).toBe(false);
  });

  it('starts what fits, and answers with its exit code', async () => {
    const { exitCode } = await check(24, []);
    expect(exitCode).toBe(7);
    expect(started()).toBe(true);
  });

  it('starts what could not be traced, and says so', async () => {
    const { exitCode, stderr } = await check(8, [], 'exit 3');
    expect(exitCode).toBe(7);
    expect(stderr).toContain('plimsoll: not checked, and started all the same:');
  });

  it('ends at once when it is interrupted before the start', async () => {
    const { exitCode } = await command.run(
      ['run', '--check', '--', pythonWith(`touch tracing; sleep 1000`), 'train.py'],
      {
        environment: { PLIMSOLL_SIMULATE: simulatedGpu(24) },
        onStart: (running) => {
          const file = join(command.folder(), 'tracing');
          const timer = setInterval(() => {
            if (!existsSync(file)) return;
            clearInterval(timer);
            running.kill('SIGINT');
          }, 20);
        },
      },
    );
    expect(exitCode).toBe(130);
  });

  it('refuses where there is no GPU, and what is no Python program', async () => {
    const host = await command.run(['run', '--check', '--device', 'host', '--', 'python3', 't.py']);
    expect(host.exitCode).toBe(3);
    expect(host.stderr).toContain('no-gpu-to-check');
    const other = await command.run(['run', '--check', '--', 'sh', '-c', 'true']);
    expect(other.exitCode).toBe(2);
    expect(other.stderr).toContain('not-python');
  });
});
