import type { Gpu } from '../estimate/cards/gpu-table.js';
import type { ServeRoom } from '../estimate/serving/serve-estimate.js';
import type {
  Estimate,
  ModuleBytes,
  Part,
  PartBytes,
  Saving,
  SpillPoint,
  Workload,
} from '../estimate/types.js';
import { fitOf, sureBytes } from '../plan/fit/fit.js';
import { formatBytes } from '../units/bytes.js';
import type { Paint } from './text/spans.js';
import { count, percentWords } from './words.js';

/** Of a card, what an estimate is read against. */
export type EstimateGpu = Pick<Gpu, 'name' | 'capacityBytes' | 'context'>;

export interface Answer {
  readonly name: string;
  readonly bytes: number;
  readonly what: string;
  /** Where it lies with the confidence of the estimate, where that is known. */
  readonly interval?: { readonly lowBytes: number; readonly highBytes: number };
}

/** The four answers, each with what it means. */
export function answersOf(
  { peak, interval, breakdown }: Estimate,
  { context }: EstimateGpu,
): Answer[] {
  const { lowBytes, highBytes } = interval;
  // Of NCCL's buffers half as much and twice as much are usual.
  const sent = breakdown.find(({ part }) => part === 'communication')?.bytes ?? 0;
  return [
    { name: 'allocated', bytes: peak.allocatedBytes, what: 'live blocks' },
    {
      name: 'reserved',
      bytes: peak.reservedBytes,
      what: 'what the allocator holds',
      interval: { lowBytes, highBytes },
    },
    {
      name: 'device',
      bytes: peak.deviceBytes,
      what: sent === 0 ? 'with the CUDA context' : 'with the CUDA context and NCCL',
      interval: {
        lowBytes: lowBytes + context.lowBytes + Math.round(sent / 2),
        highBytes: highBytes + context.highBytes + 2 * sent,
      },
    },
    {
      name: 'least capacity',
      bytes: peak.leastCapacityBytes,
      what: 'the smallest device on which it still runs',
    },
  ];
}

/** `Peak on one NVIDIA H200 (estimated, by trace)`. */
export function peakHeading({ method, ranks }: Estimate, { name }: { readonly name: string }) {
  const ofRank = ranks === undefined ? '' : `of one rank of ${ranks.count} (${ranks.parallel}) `;
  return `Peak ${ofRank}on one ${name} (estimated, by ${method})`;
}

/** How the weights are best held on a card. */
export interface Recommended {
  readonly preset: string;
  readonly reason: string;
}

export function recommendedWords({ preset, reason }: Recommended): string {
  return preset === 'none' ? reason : `Recommended quantization: ${preset}. ${reason}`;
}

/** An answer with its meaning, and with its interval where that is known. */
export function answerMeaning(estimate: Estimate, answer: Answer): string {
  const interval = intervalText(estimate, answer);
  return interval === '' ? answer.what : `${answer.what}; ${interval}`;
}

/** `95 %: 21.7 to 23.0 GiB`. */
export function intervalText({ interval }: Estimate, answer: Answer): string {
  if (answer.interval === undefined) return '';
  const { lowBytes, highBytes } = answer.interval;
  const [low, high] = [formatBytes(lowBytes), formatBytes(highBytes)];
  const unit = / \w+$/.exec(high)?.[0] ?? '';
  const shortLow = unit !== '' && low.endsWith(unit) ? low.slice(0, -unit.length) : low;
  return `${percentWords(interval.confidence * 100)}: ${shortLow} to ${high}`;
}

export interface Verdict {
  readonly fits: 'yes' | 'barely' | 'no';
  readonly sentence: string;
}

/** Whether it fits the card, and how surely. */
export function verdictOf(estimate: Estimate, gpu: Pick<EstimateGpu, 'capacityBytes'>): Verdict {
  const capacity = formatBytes(gpu.capacityBytes);
  const fit = fitOf(estimate, gpu.capacityBytes);
  if (fit === 'no') {
    const missing = formatBytes(estimate.peak.leastCapacityBytes - gpu.capacityBytes);
    return {
      fits: 'no',
      sentence: `It does not fit into the ${capacity} of this card; ${missing} are missing.`,
    };
  }
  if (fit === 'tightly') {
    const missing = formatBytes(sureBytes(estimate) - gpu.capacityBytes);
    return {
      fits: 'barely',
      sentence: `It should fit into the ${capacity} of this card; it may lack up to ${missing} by the upper end of its interval.`,
    };
  }
  return { fits: 'yes', sentence: `It fits into the ${capacity} of this card.` };
}

const partMeanings: Readonly<Record<Part, string>> = {
  weights: 'the parameters, and buffers of the model',
  gradients: 'one for each parameter that is trained',
  optimizer: 'what the optimizer remembers of each parameter',
  activations: 'kept for the backward pass, and the batch',
  temporary: 'needed by an operation for a moment',
  workspace: 'scratch memory of the math libraries',
  'kv-cache': 'keys and values of the tokens so far',
  gathered: 'parameters gathered from all ranks, while they are used',
  reduce: 'gradients on their way to the rank that keeps them',
  buckets: 'what gradients are collected in before they are sent',
  communication: 'buffers of NCCL, estimated',
  context: 'the CUDA context and loaded kernels',
  fragmentation: 'held by the allocator, unused',
};

export function partMeaning(part: Part): string {
  return partMeanings[part];
}

/** `model.layers.*.mlp (32)`; what lies outside of all modules has no name. */
export function moduleWords({ module, count: copies }: ModuleBytes): string {
  const name = module === '' ? 'outside of the modules' : module;
  return copies > 1 ? `${name} (${copies})` : name;
}

/** The largest modules, and what the rest comes to. */
export function largestModules(
  modules: readonly ModuleBytes[],
  most: number,
): { shown: readonly ModuleBytes[]; others: { count: number; bytes: number } | undefined } {
  const shown = modules.slice(0, modules.length === most + 1 ? most + 1 : most);
  const left = modules.slice(shown.length);
  const others =
    left.length === 0
      ? undefined
      : { count: left.length, bytes: left.reduce((sum, { bytes }) => sum + bytes, 0) };
  return { shown, others };
}

/** A module with less than this share of its part is not worth a line. */
const leastShare = 0.02;
const maxModules = 5;

/** The modules of a part that are worth a line; none of parts that people can do little about. */
export function moduleRows({
  part,
  bytes: whole,
  modules = [],
}: PartBytes): readonly { readonly name: string; readonly bytes: number }[] {
  // What lies outside of all modules alone tells nothing.
  if (part !== 'activations' || !modules.some(({ module }) => module !== '')) return [];
  const worth = modules.filter(({ bytes }) => bytes >= whole * leastShare).length;
  const { shown, others } = largestModules(modules, Math.min(maxModules, worth));
  const rows = shown.map((module) => ({ name: moduleWords(module), bytes: module.bytes }));
  if (others) rows.push({ name: `${others.count} others`, bytes: others.bytes });
  return rows;
}

/**
 * How long a step takes in less memory, in a phrase.
 *
 * @example
 * spillPointWords(point); // fits into 12.0 GiB at about 1.4 times the time of a step (1.2 to 1.9)
 */
export function spillPointWords({ memoryBytes, slowdown }: SpillPoint): string {
  const { low, expected, high } = slowdown;
  return `fits into ${formatBytes(memoryBytes)} at about ${times(expected)} times the time of a step (${times(low)} to ${times(high)})`;
}

export const spillTitle = 'In less memory, with plimsoll run (estimated)';

/** As many digits as the figure is worth. */
export function times(slowdown: number): string {
  return slowdown < 1.95 ? slowdown.toFixed(2).replace(/0$/, '') : slowdown.toFixed(1);
}

/** What the savings of an estimate rest on. */
export function savingsBasis(savings: readonly Saving[]): string {
  const traced = savings.filter(({ basis }) => basis === 'trace').length;
  if (traced === savings.length) return '(each traced)';
  return traced === 0 ? '(estimated by formula)' : '(traced where it can be)';
}

/** Whether what did not fit the card then does. */
export function makesItFit(
  saving: Saving,
  { peak }: Estimate,
  gpu: Pick<EstimateGpu, 'capacityBytes'>,
): boolean {
  return (
    peak.leastCapacityBytes > gpu.capacityBytes && saving.leastCapacityBytes <= gpu.capacityBytes
  );
}

/**
 * Settings as the options that set them.
 *
 * @example
 * settingOptions({ batch: 4 }); // '--batch 4'
 */
export function settingOptions(settings: Partial<Workload>): string {
  const { batch, sequence, precision, optimizer, checkpointing, loraRank, quantization } = settings;
  const values = { batch, seq: sequence, precision, optimizer, lora: loraRank, quantization };
  const options = Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name} ${value}`],
  );
  if (checkpointing !== undefined) {
    options.push(checkpointing ? '--checkpointing' : '--no-checkpointing');
  }
  return options.join(' ');
}

/**
 * What a server of a model has room for, for people.
 *
 * @example
 * serveText(answer.serve); // 'Room for 34 requests of 8,192 tokens at once ...'
 */
export function serveText(room: ServeRoom): string {
  const { engine, maxModelLen, requests, tokens } = room;
  const length = `${maxModelLen.toLocaleString('en-US')} tokens`;
  const headline =
    requests === 0
      ? `Not one request of ${length} fits (calculated, ${engine}).`
      : `Room for ${count(requests, 'request')} of ${length} at once (calculated, ${engine}).`;
  const rows: readonly (readonly [string, string])[] = [
    ['weights', formatBytes(room.weightsBytes)],
    ['working memory', formatBytes(room.workingBytes)],
    ['cache', `${formatBytes(room.kvCacheBytes)}, ${tokens.toLocaleString('en-US')} tokens`],
    ['a token of it', `${formatBytes(room.kvBytesPerToken)} (${room.kvPrecision})`],
    ['a full request', formatBytes(room.kvBytesPerRequest)],
  ];
  return [headline, '', ...rows.map(([name, value]) => `  ${name.padEnd(16)}${value}`)].join('\n');
}

/** How a part of memory looks, wherever it is shown. */
export interface PartLook {
  /** On a terminal without colours. */
  readonly letter: string;
  /** On a terminal with colours: of the same hue as the colours of pages. */
  readonly paint: Paint;
  /** On pages, on a light and on a dark ground. */
  readonly light: string;
  readonly dark: string;
}

/**
 * The one table of the colours of parts: terminal, reports and dashboard take theirs from it. Each
 * stands out from its ground, and neighbours in a bar from one another.
 */
export const partLooks: Readonly<Record<Part, PartLook>> = {
  weights: { letter: 'W', paint: 'blue', light: '#2f6690', dark: '#7fb2dc' },
  gradients: { letter: 'G', paint: 'magenta', light: '#7a4f9e', dark: '#c3a0e0' },
  optimizer: { letter: 'O', paint: 'yellow', light: '#a8741a', dark: '#e0b45c' },
  activations: { letter: 'A', paint: 'cyan', light: '#0f7a6c', dark: '#5fd0bd' },
  temporary: { letter: 'T', paint: 'green', light: '#6f8f2f', dark: '#b5d36f' },
  workspace: { letter: 'K', paint: 'white', light: '#8a8f96', dark: '#aab2bb' },
  'kv-cache': { letter: 'V', paint: 'magenta', light: '#b0567a', dark: '#e89ab8' },
  gathered: { letter: 'P', paint: 'blueBright', light: '#3f7fbf', dark: '#8fc4f2' },
  reduce: { letter: 'R', paint: 'magentaBright', light: '#9a3f8f', dark: '#dd9ad2' },
  buckets: { letter: 'B', paint: 'yellowBright', light: '#b5651d', dark: '#f0a868' },
  communication: { letter: 'N', paint: 'cyanBright', light: '#3f7d7d', dark: '#86c6c6' },
  context: { letter: 'C', paint: 'dim', light: '#5a6572', dark: '#7d8996' },
  fragmentation: { letter: 'F', paint: 'red', light: '#c1301c', dark: '#ff7b62' },
};

const looks = Object.entries(partLooks);

/** The colours as variables, for the rules of a style sheet. */
export function partVariables(ground: 'light' | 'dark'): string {
  return looks.map(([part, look]) => `--part-${part}: ${look[ground]};`).join(' ');
}

/** Classes `part-weights`, `part-gradients`, ... that fill a shape or a box with their colour. */
export const partClasses = looks
  .map(([part]) => `.part-${part} { fill: var(--part-${part}); background: var(--part-${part}); }`)
  .join('\n');
