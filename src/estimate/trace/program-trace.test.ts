import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findGpu } from '../cards/gpus.js';
import { type ProgramTraceOptions, programTrace } from '../program-estimate.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll program '));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

/** Runs a script in Python's place; `$output` is the file that it should write. */
function run(script: string, more: Partial<ProgramTraceOptions> = {}) {
  const python = join(folder, 'python3');
  const find = 'for word; do [ "$last" = --output ] && output=$word; last=$word; done';
  writeFileSync(python, `#!/bin/sh\n${find}\n${script}\n`);
  chmodSync(python, 0o755);
  const environment = { PATH: process.env['PATH'], KEPT: 'yes' };
  return programTrace([python, '-u', 'train.py', '--epochs', '3'], {
    environment,
    folder,
    ...more,
  });
}

const written = [
  '{"plimsoll":"trace","version":1,"torch":"2.11.0","workload":{"program":["train.py"]}}',
  '["s",0,""]',
  '["m","phase:building"]',
  '["a",1,4096,0,0,"w"]',
  '{"end":true,"parameters":1,"parameterBytes":4,"notes":[],"compiled":true,"ragged":false}',
].join('\n');

describe('programTrace', () => {
  it('reads the trace of a program, which holds nothing but what the program asked for', async () => {
    const trace = await run(`cat > "$output" <<'END'\n${written}\nEND`);
    expect(trace).toMatchObject({ program: true, compiled: true, ragged: false });
    expect(trace.stream.slots).toBe(1);
    expect(trace.stream.marks).toEqual([{ at: 0, name: 'phase:building' }]);
  });

  it("hands over Python's options, the card, and the program last of all", async () => {
    const script = 'printf "%s\\n" "$KEPT" "$@" > said; exit 1';
    const trace = run(script, { gpu: findGpu('3060') });
    await expect(trace).rejects.toMatchObject({ code: 'trace-crashed' });
    const [kept, ...args] = readFileSync(join(folder, 'said'), 'utf8').trimEnd().split('\n');
    expect(kept).toBe('yes');
    expect(args.slice(0, 3)).toEqual(['-u', '-m', 'plimsoll_trace']);
    expect(args).toContain('--capability=8.6');
    expect(args.slice(-4)).toEqual(['--program', 'train.py', '--epochs', '3']);
  });

  it('runs in a copy of the folder where that is asked for, and says how many cards there are', async () => {
    writeFileSync(join(folder, 'data.txt'), 'kept');
    const script = `echo changed > data.txt; pwd > "$KEPT_IN"; echo "$@" >> "$KEPT_IN"\ncat > "$output" <<'END'\n${written}\nEND`;
    const environment = { PATH: process.env['PATH'], KEPT_IN: join(folder, 'said') };
    await run(script, { environment, inCopy: true, cards: 4 });
    expect(readFileSync(join(folder, 'data.txt'), 'utf8')).toBe('kept');
    const [place = '', args] = readFileSync(join(folder, 'said'), 'utf8').split('\n');
    expect(place).not.toBe(folder);
    expect(existsSync(place)).toBe(false);
    expect(args).toContain('--cards=4');
  });

  it('shows what the program prints to a caller that asks', async () => {
    const shown: string[] = [];
    const script = `echo "step 1" >&2\ncat > "$output" <<'END'\n${written}\nEND`;
    await run(script, { onOutput: (text) => shown.push(text) });
    expect(shown.join('')).toBe('step 1\n');
  });

  it('passes on what Python found wrong, and ends with nothing left behind', async () => {
    const error = `{"error":{"code":"program-failed","fact":"the program failed: KeyError: 3","next":"measure it","where":"train.py:7"}}`;
    const scratch = `echo "$output" > where; echo '${error}'; exit 2`;
    await expect(run(scratch)).rejects.toMatchObject({
      code: 'program-failed',
      fact: 'The program failed: KeyError: 3 (train.py:7).',
    });
    expect(existsSync(readFileSync(join(folder, 'where'), 'utf8').trim())).toBe(false);
  });

  it('says where a program was that crashed', async () => {
    const stack =
      'Current thread 0x1 (most recent call first):\\n  File "train.py", line 7 in step\\n';
    const script = `printf '${stack}' > "$output.crash"; kill -ABRT $$`;
    await expect(run(script)).rejects.toMatchObject({
      code: 'trace-crashed',
      fact: `"${join(folder, 'python3')}" crashed by SIGABRT at train.py:7 and left no trace.`,
    });
  });

  it('is interrupted with everything it started', async () => {
    const stop = new AbortController();
    const trace = run('echo started > begun; sleep 1000', { signal: stop.signal });
    while (!existsSync(join(folder, 'begun'))) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    stop.abort();
    await expect(trace).rejects.toMatchObject({ kind: 'interrupted' });
  });
});
