import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findGpu } from '../../../estimate/cards/gpus.js';
import { KeptAnswers } from '../../../plan/answers/kept-answers.js';
import { keptProgram } from './kept-programs.js';

let folder: string;
let now: Date;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-programs-'));
  now = new Date();
  writeFileSync(join(folder, 'net.py'), 'width = 8');
  inPythonsPlace({ files: { read: ['net.py'], looked: [], listed: [], modules: [] } });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Notes each trace, and tells the state of the one file that it traces. */
function inPythonsPlace(footer: object): void {
  const lines = [
    { plimsoll: 'trace', version: 1, torch: '2.11.0', workload: { program: ['train.py'] } },
    ['s', 0, ''],
    ['m', 'phase:building'],
    ['a', 1, 104857600, 0, 0, 'w'],
    { end: true, parameters: 1, parameterBytes: 4, notes: [], ...footer },
  ];
  writeFileSync(join(folder, 'trace.jsonl'), lines.map((line) => JSON.stringify(line)).join('\n'));
  writeFileSync(
    join(folder, 'python'),
    `#!/bin/sh
case "$*" in *--state*)
  while read -r line; do asked=$asked$line; done; asked=$asked$line
  case $asked in *before*) [ -e '${folder}/changing' ] && { echo '{"state":null}'; exit; };; esac
  echo "{\\"state\\":\\"$(cksum < '${folder}/net.py')\\"}"; exit;;
esac
echo traced >> '${folder}/traces'
while [ "$1" != --output ]; do shift; done
cat '${folder}/trace.jsonl' > "$2"
`,
  );
  chmodSync(join(folder, 'python'), 0o755);
}

/** How often it was traced, after this question; and whether the answer was kept. */
async function ask(
  more: {
    readonly words?: readonly string[];
    readonly environment?: Readonly<Record<string, string>>;
    readonly owner?: string;
    readonly gpu?: string;
    readonly version?: string;
  } = {},
): Promise<{ traces: number; isKept: boolean }> {
  const { words = [], environment, owner, gpu = 'h200', version = '1' } = more;
  const { estimate, keptAt } = await keptProgram(
    { command: [join(folder, 'python'), 'train.py', ...words], gpu: findGpu(gpu) },
    { folder, environment: { PATH: process.env['PATH'], ...environment } },
    { kept: new KeptAnswers(join(folder, 'answers')), version, owner, now: () => now },
  );
  expect(estimate.peak.reservedBytes).toBe(104857600);
  const traces = join(folder, 'traces');
  return {
    traces: existsSync(traces) ? readFileSync(traces, 'utf8').trim().split('\n').length : 0,
    isKept: keptAt !== undefined,
  };
}

describe('keptProgram', () => {
  it('traces the same program once a day, until one of its files changes', async () => {
    expect(await ask()).toEqual({ traces: 1, isKept: false });
    expect(await ask()).toEqual({ traces: 1, isKept: true });
    writeFileSync(join(folder, 'net.py'), 'width = 16');
    expect(await ask()).toEqual({ traces: 2, isKept: false });
    now = new Date(now.getTime() + 86_399_000);
    expect(await ask()).toEqual({ traces: 2, isKept: true });
    now = new Date(now.getTime() + 1000);
    expect(await ask()).toEqual({ traces: 3, isKept: false });
    // The clock was set back.
    now = new Date(now.getTime() - 1000);
    expect(await ask()).toEqual({ traces: 4, isKept: false });
  });

  it.each([
    { words: ['--epochs', '2'] },
    { environment: { WIDTH: '3' } },
    { owner: 'uid 7' },
    { gpu: 't4' },
    { version: '2' },
  ])('traces another question by itself: %j', async (other) => {
    await ask();
    expect(await ask(other)).toEqual({ traces: 2, isKept: false });
    expect(await ask(other)).toEqual({ traces: 2, isKept: true });
  });

  it('takes no notice of the variables of a terminal', async () => {
    await ask({ environment: { SHLVL: '1', TERM: 'xterm', SSH_TTY: '/dev/pts/1' } });
    expect(await ask({ environment: { SHLVL: '2' } })).toEqual({ traces: 1, isKept: true });
  });

  it('keeps nothing where the files are not known, or one changed while it was traced', async () => {
    writeFileSync(join(folder, 'changing'), '');
    await ask();
    expect(await ask()).toEqual({ traces: 2, isKept: false });
    rmSync(join(folder, 'changing'));
    inPythonsPlace({ files: null });
    await ask();
    expect(await ask()).toEqual({ traces: 4, isKept: false });
  });

  it('passes over what was damaged', async () => {
    await ask();
    const answers = join(folder, 'answers');
    const [name = ''] = readdirSync(answers);
    const whole = readFileSync(join(answers, name), 'utf8');
    const damaged = ['', '{}', whole.slice(0, -20), whole.replace('"read"', '"red"')];
    for (const [index, text] of damaged.entries()) {
      writeFileSync(join(answers, name), text);
      expect(await ask()).toEqual({ traces: index + 2, isKept: false });
    }
  });
});
