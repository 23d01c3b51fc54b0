/** The thread that answers, so that the page stays quick while a large model is gone through. */
import modelsText from '../../python/plimsoll/models.jsonl';
import { Failure } from '../../src/failure.js';
import { badSafetensors, readSafetensorsHeader } from '../../src/model/files/safetensors.js';
import { limits } from '../../src/model/limits.js';
import { Catalogue, parseCatalogue } from '../../src/model/names/catalogue.js';
import type { Weights } from '../../src/model/types.js';
import { WeightTally } from '../../src/model/weight-tally.js';
import {
  type Asked,
  answer,
  type CalculatorAnswer,
  type CurvePoint,
  curvePoint,
} from './answer.js';
import type { CalculatorDraft } from './question.js';
import { parseTables } from './tables.js';
import tablesText from './tables.jsonl';

export interface CalculatorQuestion {
  readonly id: number;
  readonly draft: CalculatorDraft;
  /** Weights in a file of the reader; only its header is read. */
  readonly file?: File | undefined;
}

export type Along = 'batch' | 'sequence' | 'image';

export type CalculatorReply =
  /** Models that are known by name, told once. */
  | { readonly names: readonly string[] }
  | { readonly id: number; readonly answer: CalculatorAnswer }
  | { readonly id: number; readonly refusal: Pick<Failure, 'code' | 'fact' | 'next'> }
  | { readonly id: number; readonly along: Along; readonly point: CurvePoint };

const tables = parseTables(tablesText);
const known = { catalogue: new Catalogue(parseCatalogue(modelsText)), tables };
let newest = 0;

function send(message: CalculatorReply): void {
  postMessage(message);
}

send({
  names: [
    ...known.catalogue.models.map(({ name }) => name),
    ...Object.keys(tables).map((name) => `torchvision:${name}`),
  ],
});

addEventListener('message', ({ data }: MessageEvent<CalculatorQuestion>) => {
  newest = data.id;
  void reply(data);
});

/** The answer at once, then the points of its curves, until another question comes. */
async function reply({ id, draft, file }: CalculatorQuestion): Promise<void> {
  try {
    const weights = file === undefined ? undefined : await weightsIn(file);
    const asked: Asked = { draft, weights };
    const found = answer(asked, known);
    send({ id, answer: found });
    const { workload } = found;
    if (workload === undefined) return;
    for (const { along, at } of curveOf(workload)) {
      await turn();
      if (id !== newest) return;
      send({ id, along, point: curvePoint(asked, known, workload, along, at) });
    }
  } catch (error) {
    if (id !== newest) return;
    send({ id, refusal: refusalOf(error) });
  }
}

function refusalOf(error: unknown): Pick<Failure, 'code' | 'fact' | 'next'> {
  if (error instanceof Failure) return { code: error.code, fact: error.fact, next: error.next };
  return {
    code: 'unknown',
    fact: `The memory is unknown: ${String(error).slice(0, 200)}.`,
    next: 'Trace it with the command below, where Python and torch are installed.',
  };
}

const factors = [1 / 4, 1 / 2, 1, 2, 4];

function* curveOf(workload: NonNullable<CalculatorAnswer['workload']>) {
  for (const along of ['batch', 'sequence', 'image'] as const) {
    const here = workload[along];
    if (here === undefined) continue;
    const places = new Set(factors.map((factor) => Math.max(1, Math.round(here * factor))));
    if (along === 'batch') for (const factor of [8, 16]) places.add(here * factor);
    for (const at of [...places].toSorted((a, b) => a - b)) yield { along, at };
  }
}

/** Lets a newer question in. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, 0);
  });
}

/** The tensors that the header of a file names; no byte of a tensor is read. */
async function weightsIn(file: File): Promise<Weights> {
  const fail = (why: string) => badSafetensors(file.name, why);
  const front = new DataView(await file.slice(0, 8).arrayBuffer());
  const length = front.byteLength < 8 ? 0 : Number(front.getBigUint64(0, true));
  if (length > limits.safetensorsHeaderBytes)
    throw fail(`its header is said to have ${length} bytes`);
  const bytes = new Uint8Array(await file.slice(0, 8 + length).arrayBuffer());
  const tally = new WeightTally();
  const read = (into: Uint8Array, position: number) => {
    const piece = bytes.subarray(position, position + into.length);
    into.set(piece);
    return piece.length;
  };
  readSafetensorsHeader({ size: file.size, read }, file.name, tally);
  return tally.total('safetensors', [file.name], fail);
}
