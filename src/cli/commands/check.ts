import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { Command } from 'commander';
import { z } from 'zod';
import type { Estimate } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { openOutputFile } from '../../files/output-file.js';
import {
  type CheckRow,
  checkMarkdown,
  checkSarif,
  checkText,
  isOverBudget,
} from '../../report/check-words.js';
import { parseBytes } from '../../units/bytes.js';
import { type CliIo, type CommandContext, type CommandModule, printJson } from '../io.js';
import { estimateCommand } from './estimate.js';

const usualFile = 'plimsoll.check.json';
/** A list of programs is short; a larger file is something else. */
const largestFile = 1024 * 1024;

const programsFile = z.strictObject({
  /** For programs that name none. */
  budget: z.string().optional(),
  programs: z
    .array(
      z.strictObject({
        name: z.string().min(1),
        /** The words after `plimsoll estimate`. */
        estimate: z.array(z.string()).min(1),
        budget: z.string().optional(),
      }),
    )
    .min(1)
    .max(100),
});

interface CheckArguments {
  readonly base?: string;
  readonly markdown?: string;
  readonly sarif?: string;
  readonly json?: boolean;
}

/** The memory of the programs of a repository, at the base of a pull request and now. */
export const checkCommand: CommandModule = {
  define(command, context) {
    command
      .argument('[file]', `the programs, each with its options of estimate (${usualFile})`)
      .option(
        '--base <commit>',
        'compare with this commit (on GitHub: the base of the pull request)',
      )
      .option('--markdown <file>', 'write the comparison as Markdown, for a comment')
      .option('--sarif <file>', 'write what is over its budget as SARIF')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
The file has a list of programs: {"programs": [{"name": "train", "budget": "24GiB", "estimate":
["--gpu", "4090", "--", "python", "train.py"]}]}. Each is estimated in the folder of the file, and in
the same folder of the base, which is checked out beside it for as long. Programs are run for their
estimate, as by "plimsoll estimate".

Exit codes: 0 all within their budgets, 1 a program is over its budget.

Examples:
  plimsoll check
  plimsoll check --base origin/main --markdown comment.md
  plimsoll check ci/programs.json --sarif plimsoll.sarif --json`,
      )
      .action(
        context.action((file: string | undefined, given: CheckArguments) =>
          check(file ?? usualFile, given, context),
        ),
      );
  },
};

async function check(
  file: string,
  given: CheckArguments,
  context: CommandContext,
): Promise<number> {
  const { io } = context;
  const place = resolve(io.folder, file);
  const { programs, budget } = readPrograms(place);
  const markdown = given.markdown && openOutputFile(given.markdown, io.folder);
  const sarif = given.sarif && openOutputFile(given.sarif, io.folder);
  const head = resolve(place, '..');
  const base = given.base ?? baseOfPullRequest(io);
  const before =
    base === undefined
      ? undefined
      : await inCommit(base, head, (folder) => estimates(programs, folder, context));
  const after = await estimates(programs, head, context);
  const rows = programs.map((program, at): CheckRow => {
    const limit = program.budget ?? budget;
    const found = after[at];
    if (found === undefined || found instanceof Failure) throw found ?? new Error('no estimate');
    const earlier = before?.[at];
    return {
      name: program.name,
      ...(limit !== undefined && { budgetBytes: parseBytes(limit) }),
      after: found,
      before: earlier === undefined || earlier instanceof Failure ? 'unknown' : earlier,
    };
  });
  const compared = { rows, base, file };
  if (markdown) markdown.write(checkMarkdown(compared));
  if (sarif)
    sarif.write(`${JSON.stringify(checkSarif(compared, context.version), undefined, 2)}\n`);
  if (given.json) printJson(io, { base: base ?? 'unknown', programs: rows.map(documentOf) });
  else io.stdout.write(checkText(compared));
  return rows.some(isOverBudget) ? 1 : 0;
}

function documentOf(row: CheckRow) {
  return {
    name: row.name,
    peakBytes: row.after.peak.deviceBytes,
    baseBytes: row.before === 'unknown' ? 'unknown' : row.before.peak.deviceBytes,
    budgetBytes: row.budgetBytes ?? 'unknown',
    isOverBudget: isOverBudget(row),
    breakdown: row.after.breakdown,
    baseBreakdown: row.before === 'unknown' ? [] : row.before.breakdown,
  };
}

function readPrograms(place: string): z.infer<typeof programsFile> {
  if (!existsSync(place) || !statSync(place).isFile() || statSync(place).size > largestFile) {
    throw badFile(place, 'there is no such file, or it is no list of programs');
  }
  let read: unknown;
  try {
    read = JSON.parse(readFileSync(place, 'utf8'));
  } catch (error) {
    throw badFile(place, `it is not JSON (${String(error).slice(0, 120)})`);
  }
  const checked = programsFile.safeParse(read);
  if (checked.success) return checked.data;
  const [issue] = checked.error.issues;
  throw badFile(place, `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'it is not right'}`);
}

function badFile(place: string, why: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-check-file',
    fact: `${place} cannot be used: ${why}.`,
    next: 'Write {"programs": [{"name": "train", "estimate": ["--", "python", "train.py"]}]}.',
  });
}

/** The commit that a pull request is compared with; undefined where this is no pull request. */
function baseOfPullRequest({ environment }: CliIo): string | undefined {
  const path = environment['GITHUB_EVENT_PATH'];
  if (path === undefined || path === '' || !existsSync(path)) return undefined;
  const event: unknown = JSON.parse(readFileSync(path, 'utf8'));
  const shape = z.looseObject({
    pull_request: z.looseObject({ base: z.looseObject({ sha: z.string() }) }),
  });
  const read = shape.safeParse(event);
  return read.success ? read.data.pull_request.base.sha : undefined;
}

const run = promisify(execFile);

/** Does something in the same folder of another commit, which is checked out for as long. */
async function inCommit<T>(
  commit: string,
  folder: string,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const git = async (...words: readonly string[]): Promise<string> => {
    try {
      return (await run('git', ['-C', folder, ...words])).stdout.trim();
    } catch (error) {
      throw new Failure({
        kind: 'input',
        code: 'no-base',
        fact: `The commit ${commit} cannot be checked out: ${String(error).split('\n')[1] ?? 'git failed'}.`,
        next: 'Fetch it first (in a workflow: fetch-depth: 0), or leave --base out.',
        cause: error,
      });
    }
  };
  // A word that begins with a dash would be an option of git.
  const sha = await git('rev-parse', '--verify', '--end-of-options', `${commit}^{commit}`);
  const inside = await git('rev-parse', '--show-prefix');
  const beside = join(mkdtempSync(join(tmpdir(), 'plimsoll-base-')), 'tree');
  try {
    await git('worktree', 'add', '--detach', beside, sha);
    return await work(join(beside, inside));
  } finally {
    await git('worktree', 'remove', '--force', beside).catch(() => undefined);
    rmSync(resolve(beside, '..'), { recursive: true, force: true });
  }
}

/** What `plimsoll estimate --json` answers in a folder, or why it does not. */
async function estimates(
  programs: readonly { readonly estimate: readonly string[] }[],
  folder: string,
  context: CommandContext,
): Promise<readonly (Estimate | Failure)[]> {
  const found: (Estimate | Failure)[] = [];
  for (const { estimate } of programs) {
    try {
      found.push(await estimateIn(folder, estimate, context));
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      found.push(error);
    }
  }
  return found;
}

async function estimateIn(
  folder: string,
  words: readonly string[],
  { io, version }: CommandContext,
): Promise<Estimate> {
  let printed = '';
  const write = (text: string) => {
    printed += text;
  };
  const stdout = { ...io.stdout, isTerminal: false, colour: false, write };
  const command = new Command('estimate').exitOverride().configureOutput({ outputError: () => {} });
  estimateCommand.define(command, {
    io: { ...io, folder, stdout },
    version,
    action:
      (act) =>
      async (...given) => {
        await act(...given);
      },
  });
  const at = words.indexOf('--');
  const json =
    at === -1 ? [...words, '--json'] : [...words.slice(0, at), '--json', ...words.slice(at)];
  await command.parseAsync(json, { from: 'user' });
  return JSON.parse(printed);
}
