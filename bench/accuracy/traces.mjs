// Traces of the measured runs, kept under build/ by a hash of all they depend on: after a change of
// TypeScript alone none is made anew.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { pythonFailure } from '../../dist/estimate/trace/python-failure.js';
import { traceArguments } from '../../dist/estimate/trace/python-trace.js';
import { readTrace } from '../../dist/estimate/trace/trace-file.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const pythonFolder = join(root, 'python');
const packages = ['torch', 'transformers', 'torchvision', 'peft'];
/** A case takes seconds; a day's work must not end in an endless wait for one. */
const timeoutMs = 600_000;

/** The Python of this checkout, or the one that is active. */
export function benchPython() {
  const own = join(root, '.venv', 'bin', 'python');
  return existsSync(own) ? own : 'python3';
}

export class Traces {
  #python;
  #folder = join(root, 'build', 'accuracy');
  #ground;

  constructor(python) {
    this.#python = python;
    this.#ground = groundHash(python);
    mkdirSync(this.#folder, { recursive: true });
  }

  /** The lines of a trace, as Python wrote them; throws a Failure where it could not. */
  async text(source, workload, gpu) {
    const args = traceArguments(source, workload, gpu);
    const kept = join(this.#folder, `${this.#key(source, args)}.jsonl.gz`);
    if (existsSync(kept)) return gunzipSync(readFileSync(kept)).toString();
    const part = `${kept}.${process.pid}.part`;
    try {
      const end = await this.#run([...args, '--output', part]);
      const failure = pythonFailure(this.#python, end, existsSync(part));
      if (failure !== undefined) throw failure;
      const text = readFileSync(part);
      writeFileSync(part, gzipSync(text, { level: 1 }));
      renameSync(part, kept);
      return text.toString();
    } finally {
      rmSync(part, { force: true });
    }
  }

  async trace(source, workload, gpu) {
    return readTrace([await this.text(source, workload, gpu)]);
  }

  #key(source, args) {
    const hash = createHash('sha256').update(this.#ground).update(JSON.stringify(args));
    if (source.kind !== 'torchvision') hash.update(readFileSync(source.path));
    return hash.digest('hex').slice(0, 24);
  }

  #run(args) {
    return new Promise((resolve) => {
      let stdout = '';
      let stderr = '';
      const child = spawn(this.#python, ['-m', 'plimsoll_trace', ...args], {
        env: { ...process.env, PYTHONPATH: pythonFolder, PYTHONDONTWRITEBYTECODE: '1' },
        stdio: ['ignore', 'pipe', 'pipe'],
        timeout: timeoutMs,
        killSignal: 'SIGKILL',
      });
      child.stdout.on('data', (chunk) => (stdout += chunk));
      child.stderr.on('data', (chunk) => (stderr += chunk));
      child.on('error', (error) => resolve({ notStarted: error.message }));
      child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
    });
  }
}

/** The tracer's own sources and the versions of what it runs on. */
function groundHash(python) {
  const hash = createHash('sha256');
  for (const folder of ['plimsoll', 'plimsoll_trace'].map((name) => join(pythonFolder, name))) {
    const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    for (const path of sources.filter((name) => name.endsWith('.py')).toSorted()) {
      hash.update(`${path}\0`).update(readFileSync(join(folder, path)));
    }
  }
  const ask = `import sys
from importlib.metadata import PackageNotFoundError, version
print(sys.version)
for name in ${JSON.stringify(packages)}:
    try: print(name, version(name))
    except PackageNotFoundError: print(name, "none")`;
  const { stdout, error } = spawnSync(python, ['-c', ask]);
  if (error) throw new Error(`${python} could not be started: ${error.message}`);
  return hash.update(stdout).digest('hex');
}
