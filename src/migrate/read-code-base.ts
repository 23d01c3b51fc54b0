import { spawn } from 'node:child_process';
import { killGroup } from '../device/host/process-list.js';
import { pythonEnvironment } from '../estimate/trace/run-python.js';
import { splitProgress } from '../estimate/trace/trace-progress.js';
import { Failure } from '../failure.js';
import { parseObject } from '../files/own-file.js';
import { debugSettings } from '../plan/environment/rules.js';

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
  return new Promise((resolve) => {
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
    child.once('error', (error) => resolve({ stdout: '', stderr, problem: error.message }));
    child.once('close', () => resolve({ stdout: pieces.join(''), stderr }));
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
