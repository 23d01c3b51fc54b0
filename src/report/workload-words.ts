import { basename, dirname } from 'node:path';
import type { ModelSource } from '../estimate/model-source.js';
import type { Workload } from '../estimate/types.js';
import { formatCount } from '../units/words.js';

/** Where a file lies on this machine is private; its folder often is the model's name. */
const nothingSaid = new Set(['config.json', 'model.safetensors', 'model.safetensors.index.json']);

/** What stands for the model, in a few words. */
export function sourceWords(source: ModelSource): string {
  switch (source.kind) {
    case 'torchvision':
      return `torchvision:${source.name}`;
    case 'script':
      return [basename(source.path), ...source.args].join(' ');
    case 'parameters':
      return `a model of ${formatCount(source.parameters)} parameters`;
    case 'type':
      return `a ${source.size} ${source.type}`;
    case 'path': {
      const name = basename(source.path);
      return nothingSaid.has(name) ? `${basename(dirname(source.path))}/${name}` : name;
    }
    default:
      return source satisfies never;
  }
}

const precisionWords: Readonly<Record<Workload['precision'], string>> = {
  fp32: 'fp32',
  bf16: 'bf16',
  fp16: 'fp16',
  'amp-bf16': 'autocast to bf16',
  'amp-fp16': 'autocast to fp16',
};

/** How it is run, each setting with its name; only what counts. */
export function workloadFacts(
  workload: Workload,
  source: ModelSource,
): (readonly [name: string, value: string])[] {
  const { mode, batch, sequence, image, precision, optimizer, checkpointing } = workload;
  const { loraRank, quantization } = workload;
  const facts: (readonly [string, string | number | undefined | false])[] = [
    ['for', mode === 'train' ? 'training' : 'inference'],
    // A script makes its own batch.
    ['batch', source.kind !== 'script' && batch],
    ['sequence', source.kind !== 'script' && sequence],
    ['image', image],
    ['precision', precisionWords[precision]],
    ['optimizer', mode === 'train' && optimizer],
    ['checkpointing', mode === 'train' && (checkpointing ? 'yes' : 'no')],
    ['LoRA rank', loraRank],
    ['quantization', quantization],
  ];
  return facts.flatMap(([name, value]) =>
    value === undefined || value === false ? [] : [[name, String(value)] as const],
  );
}
