import { execFile } from 'node:child_process';
import type { Environment } from '../config/variables.js';
import type { Known } from '../units/known.js';
import type { PythonFacts } from './checks.js';

/** Versions are read from the packages' metadata: importing torch takes seconds. */
const question = `
import json, sys
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except Exception:
        return None
print(json.dumps({"version": sys.version.split()[0], "torch": version("torch"),
                  "transformers": version("transformers")}))
`;
const cudaQuestion = 'import torch; print(torch.cuda.is_available())';

/** A Python on a slow network disk takes long to start; one that hangs must not hold us. */
const timeoutMs = 60_000;
const maxOutputBytes = 65_536;

export interface PythonQuestion {
  readonly program: string;
  readonly environment: Environment;
  readonly folder: string;
  /** Asks torch itself whether it sees a GPU: slow, and of use only where there is one. */
  readonly askTorch: boolean;
  readonly signal: AbortSignal;
}

export async function pythonFacts(asked: PythonQuestion): Promise<PythonFacts> {
  const { program } = asked;
  const answer = await ask(question, asked);
  if ('problem' in answer) return { program, ...answer };
  const facts = parse(answer.text);
  if (facts === undefined) return { program, problem: 'it did not answer as Python does' };
  const torch = known(facts['torch']);
  return {
    program,
    version: String(facts['version']),
    torch,
    transformers: known(facts['transformers']),
    cuda: asked.askTorch && torch !== 'unknown' ? await seesGpu(asked) : 'unknown',
  };
}

async function seesGpu(asked: PythonQuestion): Promise<Known<boolean>> {
  const answer = await ask(cudaQuestion, asked);
  if ('problem' in answer) return 'unknown';
  const word = answer.text.trim();
  return word === 'True' || word === 'False' ? word === 'True' : 'unknown';
}

function ask(
  code: string,
  { program, environment, folder, signal }: PythonQuestion,
): Promise<{ readonly text: string } | { readonly problem: string }> {
  return new Promise((resolve) => {
    execFile(
      program,
      ['-c', code],
      {
        cwd: folder,
        env: environment,
        timeout: timeoutMs,
        killSignal: 'SIGKILL',
        maxBuffer: maxOutputBytes,
        signal,
      },
      (error, stdout) => resolve(error === null ? { text: stdout } : { problem: reason(error) }),
    );
  });
}

function reason(error: Error): string {
  const code: unknown = Reflect.get(error, 'code');
  if (code === 'ENOENT') return 'there is no such program';
  if (code === 'EACCES') return 'it may not be run';
  if (Reflect.get(error, 'killed') === true) return 'it did not answer in time';
  return typeof code === 'number' ? `it ended with exit code ${code}` : error.message;
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && 'version' in value
      ? Object.fromEntries(Object.entries(value))
      : undefined;
  } catch {
    return undefined;
  }
}

function known(value: unknown): Known<string> {
  return typeof value === 'string' ? value : 'unknown';
}
