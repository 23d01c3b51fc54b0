import { type ExecFileException, execFile, spawn } from 'node:child_process';
import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';

/** Runs kubectl with something on its standard input, and answers what it printed. */
export type Kubectl = (words: readonly string[], input?: string) => Promise<Buffer>;

/** An API server that does not answer is given up after this. */
const timeoutMs = 60_000;
/** A job and its pod have some 15 kB: thousands of them, or a long log. */
const maxAnswerBytes = 128 * MiB;

/** kubectl as this machine has it. */
export function kubectlHere(environment: Readonly<Record<string, string | undefined>>): Kubectl {
  return (words, input = '') =>
    new Promise((resolve, reject) => {
      const options = {
        env: environment,
        timeout: timeoutMs,
        maxBuffer: maxAnswerBytes,
        encoding: 'buffer',
      } as const;
      const child = execFile('kubectl', [...words], options, (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(failureOf(error, stderr.toString('utf8')));
      });
      // A program that ended already reads nothing.
      child.stdin?.on('error', () => {});
      child.stdin?.end(input);
    });
}

/** Passes on what kubectl prints, as it comes, until it ends or `signal` aborts. */
export type KubectlStream = (
  words: readonly string[],
  take: (bytes: Buffer) => void,
  signal: AbortSignal,
) => Promise<void>;

/** Its complaint has one line; more of it is of no use. */
const maxErrorLength = 4096;

/** kubectl as this machine has it, for as long as it runs. */
export function kubectlStreamHere(
  environment: Readonly<Record<string, string | undefined>>,
): KubectlStream {
  return (words, take, signal) =>
    new Promise((resolve, reject) => {
      const child = spawn('kubectl', [...words], {
        env: environment,
        stdio: ['ignore', 'pipe', 'pipe'],
        signal,
      });
      let said = '';
      child.stdout.on('data', take);
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        said = `${said}${text}`.slice(-maxErrorLength);
      });
      child.once('error', (error) => (signal.aborted ? resolve() : reject(failureOf(error, said))));
      child.once('close', (code) => {
        if (code === 0 || signal.aborted) resolve();
        else reject(failureOf(new Error(`exit code ${code ?? 'unknown'}`), said));
      });
    });
}

function failureOf(error: ExecFileException, stderr: string): Failure {
  if (error.code === 'ENOENT') {
    return missing(
      'no-kubectl',
      'The command kubectl was not found.',
      'Install it, or print the manifest with --dry-run.',
      error,
    );
  }
  if (error.code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') {
    return missing(
      'kubectl-answer-too-large',
      `kubectl answered more than ${maxAnswerBytes / MiB} MiB.`,
      'Use kubectl itself, such as: kubectl logs --tail 1000 job/NAME',
      error,
    );
  }
  if (error.killed === true) {
    return missing(
      'kubectl-timeout',
      `kubectl did not end within ${timeoutMs / 1000} s.`,
      'See "kubectl cluster-info", then try again.',
      error,
    );
  }
  const said = stderr.trim().split('\n').at(-1) || error.message;
  return missing(
    'kubectl-failed',
    `kubectl failed: ${said.slice(0, 400)}`,
    'See "kubectl cluster-info"; "plimsoll submit --dry-run" prints a manifest without a cluster.',
    error,
  );
}

function missing(code: string, fact: string, next: string, cause?: unknown): Failure {
  return new Failure({ kind: 'missing', code, fact, next, cause });
}

/** Reads the objects of a list from the output of `kubectl get -o json`. */
export function readObjects(answer: Buffer): readonly unknown[] {
  try {
    const list: unknown = JSON.parse(answer.toString('utf8'));
    if (typeof list === 'object' && list !== null && 'items' in list && Array.isArray(list.items)) {
      return list.items;
    }
  } catch {
    // Told below.
  }
  throw missing(
    'bad-kubectl-answer',
    `kubectl printed no list of objects: ${answer.toString('utf8', 0, 80)}`,
    'Look at what "kubectl get jobs -o json" prints; a newer kubectl may be needed.',
  );
}
