import { assembleEstimate } from '../../src/estimate/assemble.js';
import type { Gpu } from '../../src/estimate/cards/gpu-table.js';
import type { Estimate, Optimizer, Part, Workload } from '../../src/estimate/types.js';
import { Failure } from '../../src/failure.js';

/** A traced peak of one batch of images. */
export interface TracedPoint {
  readonly batch: number;
  readonly image: number;
  readonly allocatedBytes: number;
  readonly reservedBytes: number;
  readonly weightsBytes: number;
  readonly gradientsBytes: number;
  readonly workspaceBytes: number;
}

/** By name of the model, then by mode and precision: `train fp32`. */
export type Tables = Readonly<Record<string, Readonly<Record<string, readonly TracedPoint[]>>>>;

/**
 * The tables from their text: a model a line, and of each point its sizes in the order of `TracedPoint`.
 *
 * @example
 * parseTables(text)['resnet50']?.['train fp32']?.length; // 4
 */
export function parseTables(text: string): Tables {
  const lines = text.split('\n').filter((line) => line !== '');
  return Object.fromEntries(
    lines.map((line) => {
      const { name, points }: TableLine = JSON.parse(line);
      const settings = Object.entries(points).map(
        ([setting, rows]) => [setting, rows.map(pointOf)] as const,
      );
      return [name, Object.fromEntries(settings)] as const;
    }),
  );
}

interface TableLine {
  readonly name: string;
  readonly points: Readonly<Record<string, readonly (readonly number[])[]>>;
}

function pointOf(sizes: readonly number[]): TracedPoint {
  const at = (index: number) => sizes[index] ?? 0;
  return {
    batch: at(0),
    image: at(1),
    allocatedBytes: at(2),
    reservedBytes: at(3),
    weightsBytes: at(4),
    gradientsBytes: at(5),
    workspaceBytes: at(6),
  };
}

/** Bytes that an optimizer keeps for each byte of 32-bit weights. */
const stateShares: Partial<Record<Optimizer, number>> = {
  sgd: 0,
  'sgd-momentum': 1,
  adagrad: 1,
  rmsprop: 1,
  adam: 2,
  'adam-fused': 2,
  adamw: 2,
  'adamw-fused': 2,
  adamax: 2,
  nadam: 2,
  radam: 2,
  adadelta: 2,
};
/** Steps that update one tensor in place, with nothing beside it. */
const inPlace: ReadonlySet<Optimizer> = new Set([
  'sgd',
  'sgd-momentum',
  'adam-fused',
  'adamw-fused',
]);

/** The interval of a table whose fourth point was met exactly. */
const leastShare = 0.08;

/**
 * The memory of a model that was traced ahead, at any batch and size of image: the traced points lie
 * on a function of batch and of batch times image², and the state of the optimizer is added.
 *
 * @example
 * tableEstimate('resnet50', tables, { ...workload, batch: 64, image: 224 }, findGpu('4090'));
 */
export function tableEstimate(
  name: string,
  tables: Tables,
  workload: Workload,
  gpu: Gpu,
): Estimate {
  const { mode, batch, image = 224, optimizer, checkpointing, loraRank, quantization } = workload;
  const own = tables[name] ?? {};
  const precision = near(workload);
  const points = own[`${mode} ${precision}`];
  const state = stateShares[optimizer];
  const isOther = checkpointing || loraRank !== undefined || quantization !== undefined;
  if (points === undefined || isOther || (mode === 'train' && state === undefined)) {
    throw noTable(name, workload);
  }
  const sizes = new Set(points.map((point) => point.image));
  if (sizes.size === 1 && !sizes.has(image)) throw noTable(name, workload);
  const at = (pick: (point: TracedPoint) => number) => along(points, pick, batch, image);
  const allocated = at((point) => point.allocatedBytes);
  const reserved = Math.max(
    allocated,
    at((point) => point.reservedBytes),
  );
  const weights = points[0]?.weightsBytes ?? 0;
  const workspace = Math.max(
    0,
    at((point) => point.workspaceBytes),
  );
  const live = new Map<Part, number>();
  live.set('weights', weights);
  let allocatedBytes = allocated;
  if (mode === 'train') {
    const optimizerBytes = Math.round(weights * (state ?? 0));
    live.set('optimizer', optimizerBytes);
    const temporary = inPlace.has(optimizer) ? 0 : weights;
    const step = 2 * weights + optimizerBytes + temporary + workspace;
    const backward = allocated + optimizerBytes;
    allocatedBytes = Math.max(step, backward);
    if (step > backward) {
      live.set('gradients', weights);
      live.set('temporary', temporary);
    } else
      live.set(
        'gradients',
        Math.min(
          weights,
          Math.max(
            0,
            at((one) => one.gradientsBytes),
          ),
        ),
      );
  }
  live.set('workspace', workspace);
  const known = [...live.values()].reduce((sum, bytes) => sum + bytes, 0);
  live.set('activations', Math.max(0, allocatedBytes - known));
  const reservedBytes = allocatedBytes + (reserved - allocated);
  const share = Math.max(leastShare, 2 * errorOf(points));
  return assembleEstimate({
    method: 'table',
    gpu,
    allocatedBytes,
    reservedBytes,
    interval: {
      lowBytes: Math.round(reservedBytes * (1 - share)),
      highBytes: Math.round(reservedBytes * (1 + share)),
      confidence: 0.95,
    },
    live,
    notes: [
      `From traces of ${name} of torchvision that were made ahead, at ${points.length} sizes; batch and image lie on the function through them.`,
      ...(precision === workload.precision
        ? []
        : [`Traced in ${precision}, which takes as much as ${workload.precision}.`]),
    ],
  });
}

/** Both types of 16 bits take as much. */
function near({ precision }: Workload): string {
  if (precision === 'fp16') return 'bf16';
  return precision === 'amp-fp16' ? 'amp-bf16' : precision;
}

/** The function through the first three points, or through two where the image is fixed. */
function along(
  points: readonly TracedPoint[],
  pick: (point: TracedPoint) => number,
  batch: number,
  image: number,
): number {
  const [small, large, wide] = points;
  if (small === undefined || large === undefined) return 0;
  const slope = (pick(large) - pick(small)) / (large.batch - small.batch);
  const flat = pick(small) + slope * (batch - small.batch);
  if (wide === undefined) return Math.max(0, Math.round(flat));
  const area = wide.image ** 2 / large.image ** 2 - 1;
  const perArea = (pick(wide) - pick(large)) / (wide.batch * area);
  const more = perArea * batch * (image ** 2 / small.image ** 2 - 1);
  return Math.max(0, Math.round(flat + more));
}

/** How far the function is off at the point that did not make it. */
function errorOf(points: readonly TracedPoint[]): number {
  const held = points[3];
  if (held === undefined) return 0;
  const found = along(points, (point) => point.reservedBytes, held.batch, held.image);
  return Math.abs(found / held.reservedBytes - 1);
}

function noTable(name: string, { mode, precision, optimizer }: Workload): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-formula',
    fact: `The memory of ${name} is unknown here for these settings (${mode}, ${precision}, ${optimizer}): its table was traced without them.`,
    next: 'Trace it with the command below, where Python and torch are installed.',
  });
}
