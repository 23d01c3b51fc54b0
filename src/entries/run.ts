/**
 * Run a program, recognise an out-of-memory, and recover.
 *
 * @example
 * import { runCommand } from 'plimsoll/run';
 *
 * const report = await runCommand({ command: ['python', 'train.py'], memoryBytes: 8 * 2 ** 30 });
 *
 * @module
 */

export {
  createScanner,
  type Finding,
  recogniseLine,
  type Scanner,
} from '../run/recognise/scanner.js';
export type { RunContext } from '../run/run-context.js';
export { RunFolder } from '../run/store/run-folder.js';
export type { RunPlan } from '../run/store/run-plan.js';
export { type SuperviseOptions, superviseRun } from '../run/supervise.js';
export type {
  Attempt,
  ClimbedRung,
  EnforcedLimit,
  Outcome,
  OutOfMemory,
  Rung,
  RunReport,
  RunSettings,
} from '../run/types.js';
export { type RunCommandOptions, runCommand } from './run-command.js';
