import { createHash } from 'node:crypto';
import type { EstimateMethod } from '../../../estimate/estimate.js';
import type { ModelSource } from '../../../estimate/model-source.js';
import {
  fileStates,
  modelFiles,
  type PythonPlace,
  pythonPackages,
  scriptFiles,
} from './file-states.js';

/** A request that holds together, with all that was settled: the card, too. */
export interface PreparedAnswer {
  readonly source: ModelSource;
  readonly method: EstimateMethod;
  /** How its notes name the fields of a request. */
  readonly words?: string | undefined;
}

/** The largest models come in a few hundred; looking at more could take longer than a trace. */
const maxFiles = 2000;

/**
 * A name of an estimate or a plan that changes with all that it depends on: what was asked for, the
 * card, the files of the model, the packages of Python. Undefined where that cannot be told, as for
 * a script, which imports what it likes, and where a formula answers at once anyway.
 *
 * @example
 * const prepared = await prepareEstimate(request, machine);
 * const before = await answerKey(prepared, machine);
 * (await answerKey(prepared, machine)) === before; // true, until somebody edits the config.json
 */
export async function answerKey(
  prepared: PreparedAnswer,
  python: PythonPlace,
  /** Takes a script for what lies in its folder; for those who can ask without. */
  ofScripts = false,
): Promise<string | undefined> {
  const { source, method } = prepared;
  if (method === 'formula' || ruled.has(source.kind)) return undefined;
  if (source.kind === 'script' && !ofScripts) return undefined;
  const files = await filesOf(source);
  if (files === undefined || files.length > maxFiles) return undefined;
  const states = await fileStates([...files, ...(await pythonPackages(python))]);
  return createHash('sha256')
    .update(JSON.stringify([prepared, states]))
    .digest('hex');
}

/** Answered at once, by a rule. */
const ruled: ReadonlySet<ModelSource['kind']> = new Set(['type', 'parameters']);

async function filesOf(source: ModelSource): Promise<readonly string[] | undefined> {
  if (source.kind === 'path') return modelFiles(source.path);
  return source.kind === 'script' ? scriptFiles(source.path) : [];
}
