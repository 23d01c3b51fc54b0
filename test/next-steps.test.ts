import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectFiles, root } from './support/project-files.js';

/** Words that follow the name of the program in a sentence, and are no commands. */
const prose = new Set(
  (
    'again at can cannot gave has in is knows needs number of on ' +
    'reads says server serves submitted that was which with works'
  ).split(' '),
);

/** Options of other programs that we name. */
const foreign = new Map([
  ['docker', ['--ipc', '--shm-size']],
  ['kubectl', ['--for']],
  ['node', ['--heapsnapshot-signal']],
  ['plimsoll_trace', ['--program']],
  ['prometheus', ['--query']],
  ['sbatch', ['--deadline', '--nice', '--qos']],
  ['srun', ['--gres', '--time']],
  ['systemd-run', ['--scope', '--user']],
  [
    'torchrun',
    [
      '--nnodes',
      '--nproc-per-node',
      '--rdzv-backend',
      '--rdzv-endpoint',
      '--rdzv-id',
      '--standalone',
    ],
  ],
]);
const foreignOptions = new Set([...foreign.values()].flat());

/** Options of other commands that a command names. */
const ofOthers = new Map([
  ['serve', ['--engine', '--server']],
  ['replay', ['--record']],
]);

const page = readFileSync(join(root, 'docs/commands.md'), 'utf8');
const [beforeCommands = '', ...parts] = page.split(/^## plimsoll /m);
const everywhere = optionsIn(beforeCommands);
/** test/docs.test.ts holds the page against what each command says with --help. */
const commands = new Map(
  parts.map((part) => [
    /^[a-z-]+/.exec(part)?.[0] ?? '',
    new Set([...optionsIn(part), ...everywhere]),
  ]),
);
const anywhere = new Set(optionsIn(page));

const sources = projectFiles().filter(
  (path) =>
    /^(src|web\/src|web\/snapshot|python\/plimsoll)\/.*\.(tsx?|py)$/.test(path) &&
    !/\.(test|suite)\.tsx?$|-for-tests\.ts$/.test(path),
);

function optionsIn(text: string): string[] {
  return [...text.matchAll(/(?<![\w-])--[a-z][a-z-]*[a-z]/g)].map(([option]) => option);
}

/** The texts of a source that hold more than a word; what is computed stands as X. */
function sentences(source: string): string[] {
  const code = source.replace(/^\s*(?:\*|\/\/|\/\*|#).*$/gm, '');
  let plain = code;
  for (let before = ''; before !== plain; ) {
    before = plain;
    plain = plain.replace(/\$\{[^{}]*\}/g, 'X');
  }
  const texts = plain.matchAll(/'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g);
  return [...texts]
    .flatMap(([, single, double, template]) => (single ?? double ?? template ?? '').split('\n'))
    .filter((text) => /\S\s\S/.test(text) && !/^\s*-(?:-|\w, )|var\(--/.test(text));
}

/** What a sentence tells to type, and does not exist. */
function wrongIn(sentence: string, path: string): string[] {
  const typed = /(?<![\w/.@-])plimsoll ([a-z][a-z-]*)((?:(?! -- )[^"`;])*)/g;
  const wrong: string[] = [];
  for (const [, name = '', rest = ''] of sentence.matchAll(typed)) {
    const options = commands.get(name);
    if (options === undefined) {
      if (!prose.has(name)) wrong.push(`plimsoll ${name}`);
      continue;
    }
    const missing = optionsIn(rest).filter((option) => !options.has(option));
    wrong.push(...missing.map((option) => `plimsoll ${name} ${option}`));
  }
  const own = path.startsWith('src/cli/commands/')
    ? (basename(path, '.ts').split('-')[0] ?? '')
    : '';
  const known = commands.get(own) ?? anywhere;
  const rest = sentence.replace(typed, '').replace(/ -- .*/, '');
  const bare = optionsIn(rest).filter(
    (option) =>
      !known.has(option) && !foreignOptions.has(option) && !ofOthers.get(own)?.includes(option),
  );
  return [...wrong, ...bare];
}

describe('what errors, answers and pages tell people to type', () => {
  it('is known: every command has options', () => {
    expect(commands.size).toBeGreaterThan(20);
    expect([...commands].filter(([, options]) => options.size === 0)).toEqual([]);
  });

  it('exists, each command and each option', () => {
    const found = sources.flatMap((path) =>
      sentences(readFileSync(join(root, path), 'utf8')).flatMap((sentence) =>
        wrongIn(sentence, path).map((wrong) => `${path}: ${wrong}: ${sentence}`),
      ),
    );
    expect(found).toEqual([]);
  });

  it.each([
    ['Run "plimsoll devices" to see them.', []],
    ['Run "plimsoll device" to see them.', ['plimsoll device']],
    [
      'Write: plimsoll submit --memroy 6GiB -- python train.py --lr 1',
      ['plimsoll submit --memroy'],
    ],
    ['Leave --memroy out.', ['--memroy']],
    ['Start it with --shm-size=8g.', []],
  ])('%s: %j', (sentence, wrong) => {
    expect(wrongIn(sentence, 'src/x.ts')).toEqual(wrong);
    expect(sentences(`next: '${sentence}',`)).toEqual([sentence]);
  });
});
