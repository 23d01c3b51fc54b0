import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { killGroup } from '../../device/host/process-list.js';
import { pythonProgram } from '../../estimate/trace/python-trace.js';
import { pythonEnvironment } from '../../estimate/trace/run-python.js';
import { splitProgress } from '../../estimate/trace/trace-progress.js';
import { Failure } from '../../failure.js';
import { changeFiles } from '../../files/change-files.js';
import { homeFolder } from '../../files/folders.js';
import { parseObject } from '../../files/own-file.js';
import { debugSettings } from '../../plan/environment/rules.js';
import { cleanText } from '../../report/text/text-width.js';
import { systemClock } from '../../time/clock.js';
import { type CliIo, type CommandModule, printJson } from '../io.js';
import { undoChange } from '../options/environment-mode.js';
import { showBusy } from '../screen/progress.js';
import { type Stop, stopOnSignals } from '../stop.js';
import { withStop } from '../watching.js';

interface MigrateArguments {
  readonly apply?: boolean;
  readonly undo?: boolean;
  readonly python?: string;
  readonly json?: boolean;
}

export const migrateCommand: CommandModule = {
  define(command, context) {
    command
      .argument('[path]', 'a Python file, or a folder of them')
      .option('--apply', 'write the changes; the originals are kept')
      .option('--undo', 'put back what the last --apply changed')
      .option('--python <program>', 'the Python that parses the code (the active one)')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
Finds debug settings in the environment, BitsAndBytesConfig that a preset replaces, out-of-memory handled
by hand, deprecated torch.cuda.amp and apex.amp, empty_cache in loops, and fixed batch sizes. The code is
parsed, never run. What is not understood is left alone and listed. The exit code is 1 when changes are
proposed and not applied.

Examples:
  plimsoll migrate src/
  plimsoll migrate train.py --apply
  plimsoll migrate --undo`,
      )
      .action(
        context.action((path: string | undefined, given: MigrateArguments) =>
          withStop(stopOnSignals([context.io.stdout.closed]), (stop) =>
            migrate(path, given, context.io, stop),
          ),
        ),
      );
  },
};

async function migrate(
  path: string | undefined,
  given: MigrateArguments,
  io: CliIo,
  stop: Stop,
): Promise<number> {
  const { folder, environment } = io;
  const originals = join(homeFolder(environment), 'migrations');
  if (given.undo) {
    if (path !== undefined || given.apply) throw badUsage('--undo stands alone.');
    return undoChange(originals, given.json === true, io);
  }
  if (path === undefined) throw badUsage('No file and no folder was given.');
  const named = resolve(folder, path);
  if (!existsSync(named)) throw noSuchPath(path);
  const python = pythonProgram(given.python, environment);
  const code = await showBusy(io, `Reading ${path}`, (onProgress) =>
    readCodeBase(named, { python, environment, folder, signal: stop.signal, onProgress }),
  ).catch((error: unknown) => {
    if (stop.interruptedBy === undefined) throw error;
    return undefined;
  });
  if (code === undefined) return stop.interruptedBy ?? 0;
  const changes = code.found.flatMap(({ path: file, sha256, after }) =>
    after === undefined ? [] : [{ path: file, sha256, after }],
  );
  const write = given.apply === true && changes.length > 0;
  const now = new Date(systemClock.epochMs());
  const kept = write ? changeFiles(originals, changes, now) : undefined;
  if (given.json) {
    const { files, found, notUnderstood, tooMany } = code;
    const shown = found.map(({ path: file, findings, diff }) => ({ path: file, findings, diff }));
    printJson(io, { files, tooMany, found: shown, notUnderstood, applied: write, kept });
  } else {
    io.stdout.write(migrationDiff(code.found, folder));
    io.stderr.write(`${migrationNotes(code, folder)}\n`);
    if (write) io.stderr.write('Written. "plimsoll migrate --undo" puts the originals back.\n');
  }
  return changes.length > 0 && !write ? 1 : 0;
}

function noSuchPath(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-file',
    fact: `There is no file or folder "${path}".`,
    next: 'Check the path.',
  });
}

function badUsage(fact: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact,
    next: 'Write: plimsoll migrate src/, or: plimsoll migrate --undo',
  });
}

/** The unified diff of all files, with paths as `patch -p0` and `git apply -p0` take them. */
function migrationDiff(found: readonly ReadFile[], folder: string): string {
  return found
    .flatMap(({ path, diff }) => {
      if (diff === undefined) return [];
      const name = nameOf(path, folder);
      return [`--- ${name}\n+++ ${name}\n${diff}`];
    })
    .join('');
}

/** What a person should know beside the diff: what was changed, what was left, what was not read. */
function migrationNotes(code: CodeBase, folder: string): string {
  const { files, found, notUnderstood, tooMany } = code;
  const all = found.flatMap(({ path, findings }) =>
    findings.map((finding) => ({ ...finding, place: `${nameOf(path, folder)}:${finding.line}` })),
  );
  const left = all.filter(({ changed }) => !changed);
  const changed = all.length - left.length;
  return [
    `${files} Python ${files === 1 ? 'file' : 'files'}: ${changed} ${changed === 1 ? 'place' : 'places'} can be changed, ${left.length} ${left.length === 1 ? 'is' : 'are'} for you to decide.`,
    ...left.map(({ place, rule, message }) => `  ${place}: ${rule}: ${cleanText(message)}`),
    ...(notUnderstood.length > 0 ? ['Left alone:'] : []),
    ...notUnderstood.map(({ path, why }) => `  ${nameOf(path, folder)}: ${cleanText(why)}`),
    ...(tooMany ? ['There are more files; name a smaller folder.'] : []),
  ].join('\n');
}

function nameOf(path: string, folder: string): string {
  const inside = relative(folder, path);
  return cleanText(inside.startsWith('..') ? path : inside);
}

export interface CodePlace {
  readonly python: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly signal: AbortSignal;
  /** Told now and then; left out where no one looks. */
  readonly onProgress?: ((words: string, share?: number) => void) | undefined;
}

/** New texts and diffs of a large code base take some megabytes; what is more has gone wrong. */
const maxCharacters = 256 * 1024 * 1024;
const keptError = 4096;

/** Has Python read a file or a folder: its own parser, and nothing of what it reads is run. */
export async function readCodeBase(path: string, place: CodePlace): Promise<CodeBase> {
  const { python, environment, folder, signal, onProgress } = place;
  const settings = JSON.stringify(debugSettings());
  const child = spawn(python, ['-m', 'plimsoll.migrating', path, settings], {
    cwd: folder,
    env: pythonEnvironment(environment, onProgress !== undefined),
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: process.platform !== 'win32',
    windowsHide: true,
  });
  const end = () => killGroup(child);
  signal.addEventListener('abort', end, { once: true });
  try {
    const said = await outputOf(child, end, onProgress);
    signal.throwIfAborted();
    const answer = parseAnswer(said.stdout);
    if (answer !== undefined) return answer;
    throw notRead(python, said.problem ?? lastLine(said.stderr));
  } finally {
    signal.removeEventListener('abort', end);
  }
}

function outputOf(
  child: ReturnType<typeof spawn>,
  end: () => void,
  onProgress: CodePlace['onProgress'],
): Promise<{ readonly stdout: string; readonly stderr: string; readonly problem?: string }> {
  return new Promise((settle) => {
    const pieces: string[] = [];
    let length = 0;
    let stderr = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      length += text.length;
      if (length > maxCharacters) end();
      else pieces.push(text);
    });
    const keep = (text: string) => {
      stderr = (stderr + text).slice(-keptError);
    };
    child.stderr
      ?.setEncoding('utf8')
      .on('data', onProgress === undefined ? keep : splitProgress(onProgress, keep));
    child.once('error', (error) => settle({ stdout: '', stderr, problem: error.message }));
    child.once('close', () => settle({ stdout: pieces.join(''), stderr }));
  });
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.slice(0, 200) ?? '';
}

function notRead(python: string, why: string): Failure {
  return new Failure({
    kind: 'missing',
    code: 'no-python',
    fact: `${python} did not read the code${why === '' ? '' : ` (${why})`}.`,
    next: 'Name a Python 3.10 or newer with --python.',
  });
}

/**
 * What the reader in Python said, one JSON object a line. Undefined where it did not come to its end:
 * its last line counts the files.
 */
function parseAnswer(text: string): CodeBase | undefined {
  const found: ReadFile[] = [];
  const notUnderstood: { path: string; why: string }[] = [];
  let tooMany = false;
  for (const line of text.split('\n')) {
    const said = parseObject(line);
    if (said === undefined) continue;
    const { path, sha256, findings, after, diff, notUnderstood: why, files } = said;
    if (typeof files === 'number') return { files, found, notUnderstood, tooMany };
    if (typeof said['tooMany'] === 'number') tooMany = true;
    if (typeof path !== 'string') continue;
    if (typeof why === 'string') notUnderstood.push({ path, why });
    else if (typeof sha256 === 'string' && Array.isArray(findings)) {
      const both = typeof after === 'string' && typeof diff === 'string' ? { after, diff } : {};
      found.push({ path, sha256, findings: findings.flatMap(findingOf), ...both });
    }
  }
  return undefined;
}

function findingOf(value: unknown): CodeFinding[] {
  const field = (name: string): unknown => Reflect.get(Object(value), name);
  const [rule, line, message] = [field('rule'), field('line'), field('message')];
  if (typeof rule !== 'string' || typeof line !== 'number' || typeof message !== 'string') {
    return [];
  }
  return [{ rule, line, message, changed: field('changed') === true }];
}

/** What was found at one place of a file. */
export interface CodeFinding {
  readonly rule: string;
  readonly line: number;
  readonly message: string;
  /** Whether the diff changes it; otherwise it is for a person. */
  readonly changed: boolean;
}

/** A file in which something was found. */
export interface ReadFile {
  readonly path: string;
  /** Of its bytes, as they were read. */
  readonly sha256: string;
  readonly findings: readonly CodeFinding[];
  /** The whole new text, and what differs; absent where nothing can be changed safely. */
  readonly after?: string;
  readonly diff?: string;
}

/** What a code base holds that could be better. */
export interface CodeBase {
  /** Python files that were looked at. */
  readonly files: number;
  readonly found: readonly ReadFile[];
  /** Files that were left alone, and why. */
  readonly notUnderstood: readonly { readonly path: string; readonly why: string }[];
  /** Whether there were more files than are looked at. */
  readonly tooMany: boolean;
}
