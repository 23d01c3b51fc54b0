import type { Workload } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import type { OpenWorkload } from './plan-input.js';
import { argsExample, type RequestField, type RequestWording } from './wording.js';

/** The workload that an estimate is for; what was left open is taken as most people have it. */
export function closedWorkload(
  open: OpenWorkload,
  source: { readonly kind: string },
  wording: RequestWording,
): Workload {
  if (source.kind === 'script') refuseForScript(open, wording);
  else if (open.batch === undefined) {
    const fact = `No ${wording.name('batch')} was given.`;
    throw badUsage(fact, 'Say how many samples a batch has.');
  }
  return {
    mode: 'train',
    batch: 1,
    precision: 'fp32',
    optimizer: 'adamw',
    checkpointing: false,
    ...open,
  };
}

/** A script makes its own batch and its own model; an option that does nothing would mislead. */
function refuseForScript(open: OpenWorkload, wording: RequestWording): void {
  const given: readonly (readonly [RequestField, unknown])[] = [
    ['batch', open.batch],
    ['seq', open.sequence],
    ['image', open.image],
    ['targetSeq', open.targetSequence],
    ['keep', open.keep],
    ['checkpointing', open.checkpointing],
    ['quantization', open.quantization],
  ];
  const [field] = given.find(([, value]) => value !== undefined) ?? [];
  if (field === undefined) return;
  throw badUsage(
    `${wording.name(field)} does not reach a script.`,
    `Hand it over as an argument of its workload, such as ${argsExample(wording, '8')}.`,
  );
}

function badUsage(fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code: 'bad-usage', fact, next });
}
