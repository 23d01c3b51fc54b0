import type { Command, Option } from 'commander';
import { type BuildOptions, build } from 'esbuild';
import type { CliIo } from '../../src/cli/io.js';
import type { defineProgram } from '../../src/cli/program.js';
import { root } from './project-files.js';

const head = `# Commands

This page is made from the program: each section is the help of one command. After a change of an
option, run \`UPDATE_COMMANDS=1 npx vitest run test/docs.test.ts\`. The documents that \`--json\` prints
are described in [JSON](json.md).

In a clone, \`node bin/plimsoll.js\` is the command \`plimsoll\`. The answer goes to stdout; logs, alerts
and errors go to stderr. Sizes are written \`24GiB\`, \`24GB\`, \`24g\` or in bytes; durations as seconds
(\`60\`, \`0.1\`) or with a unit (\`10ms\`, \`5m\`, \`1h\`). An error is one line: a code, the fact, and the
next step.

| exit code | meaning |
| --- | --- |
| 0 | yes, or done |
| 1 | no: nothing fits (\`plan\`), jobs were not started (\`pack\`), a leak was found (\`leak\`, \`snapshot\`), memory is about to run out (\`oom\`), a job was refused (\`submit\`), a setting is bad (\`env --check\`), a training does not fit (\`optimize\`), something needed does not work (\`doctor\`) |
| 2 | bad usage or input |
| 3 | something is missing on this machine |
| 4 | the job failed |
| 5 | \`plan\`: it should fit, but may lack memory |
| 130 | interrupted with Ctrl-C (143 by SIGTERM, 129 when the terminal is gone) |
| 70 | a bug in plimsoll |

## Options of every command

\`--help\` shows all options and an example. \`--debug\` prints the stack trace of an error.
`;

/** The text of docs/commands.md. */
export async function commandsPage(): Promise<string> {
  const define = await builtProgram();
  const program = await define(
    { io: silentIo, version: '0.0.0', action: () => async () => {} },
    () => true,
  );
  const shown = program.createHelp().visibleCommands(program);
  const sections = shown.filter((command) => command.name() !== 'help').flatMap(sectionsOf);
  return [head, ...sections].join('\n');
}

/** Built in one go: all commands import most of `src`, file by file that takes half a minute. */
async function builtProgram(): Promise<typeof defineProgram> {
  const options = new URL('../../scripts/esbuild-program.mjs', import.meta.url).href;
  const { program }: { program: BuildOptions } = await import(options);
  const outdir = `${root}build/commands-page`;
  const entryPoints = { program: 'src/cli/program.ts' };
  await build({ ...program, absWorkingDir: root, entryPoints, outdir, splitting: true });
  const built: { defineProgram: typeof defineProgram } = await import(`${outdir}/program.js`);
  return built.defineProgram;
}

function sectionsOf(command: Command): string[] {
  const below = command.commands.flatMap(sectionsOf);
  return [section(command), ...below];
}

function section(command: Command): string {
  const path = pathOf(command);
  const level = command.parent?.parent ? '###' : '##';
  const { notes, examples } = afterOptions(command);
  return [
    `${level} ${path}`,
    sentence(command.description()),
    examples === '' ? '' : `\`\`\`bash\n${examples}\n\`\`\``,
    optionTable(command),
    notes,
  ]
    .filter((part) => part !== '')
    .join('\n\n')
    .concat('\n');
}

function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}

function sentence(text: string): string {
  const first = `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
  return /[.!?]$/.test(first) ? cell(first) : `${cell(first)}.`;
}

/** The paragraphs and the examples that the command prints after its options. */
function afterOptions(command: Command): { notes: string; examples: string } {
  let printed = '';
  command.configureOutput({ writeOut: (text) => (printed += text) });
  command.outputHelp();
  const after = printed.slice(command.helpInformation().length).trim();
  const [notes = '', list = ''] = after.split(/^Examples?:\n/m);
  const [, examples = '', rest = ''] = /^((?: {2}.*\n|\n(?= {2}))*)([^]*)$/.exec(`${list}\n`) ?? [];
  return {
    notes: [notes, rest].map(prose).filter(Boolean).join('\n\n'),
    examples: examples.replaceAll(/^ {2}/gm, '').trim(),
  };
}

/** Indented lines are lists or examples of their own; paragraphs are joined. */
function prose(text: string): string {
  return text
    .split(/\n{2,}/)
    .filter((block) => block.trim() !== '')
    .map((block) =>
      /^ {2}/m.test(block)
        ? `\`\`\`text\n${block}\n\`\`\``
        : escaped(block.trim().replaceAll('\n', ' ')),
    )
    .join('\n\n');
}

function optionTable(command: Command): string {
  const options = command.options.filter(
    ({ hidden, long }) => !hidden && long !== '--debug' && long !== '--help',
  );
  const rows = options.map((option) => `| \`${option.flags}\` | ${effect(option)} |`);
  return rows.length === 0 ? '' : ['| option | effect |', '| --- | --- |', ...rows].join('\n');
}

function effect({
  description,
  argChoices,
  defaultValue,
  defaultValueDescription,
}: Option): string {
  const choices = argChoices ? ` (${argChoices.map((one) => `\`${one}\``).join(', ')})` : '';
  const value = defaultValueDescription ?? plain(defaultValue);
  return `${cell(description)}${choices}${value === undefined ? '' : `; default: ${cell(value)}`}`;
}

function plain(value: unknown): string | undefined {
  if (value === undefined || value === false || (Array.isArray(value) && value.length === 0)) {
    return undefined;
  }
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function cell(text: string): string {
  return escaped(text).replaceAll('|', '\\|').replaceAll('\n', ' ');
}

/** Words in angle brackets would be HTML. */
function escaped(text: string): string {
  return text.replaceAll(/<[\w.|-]+>|\{[\w]+\}/g, '`$&`').replaceAll('``', '`');
}

const closed = new AbortController().signal;
const nowhere = {
  isTerminal: false,
  colour: false,
  columns: () => 100,
  closed,
  failure: undefined,
  write: () => {},
  drained: async () => {},
};
const silentIo: CliIo = { environment: {}, folder: '/', stdout: nowhere, stderr: nowhere };
