import { Failure } from '../../failure.js';
import { bytesOf, safetensorsTypes } from '../../units/data-types.js';
import { limits } from '../limits.js';
import { elementsOf } from '../parameter-list.js';
import type { WeightTally } from '../weight-tally.js';
import { ByteReader, type ByteSource, isLfsPointer } from './byte-reader.js';
import { JsonReader } from './json-reader.js';

/** Bytes of the length that stands in front of the header. */
const lengthBytes = 8;

/**
 * Reads the header of a safetensors file into a tally: no byte of a tensor is read. The checks are
 * those of the reference: known types, sizes that fit the shapes, tensors that lie one after
 * another without a gap, and a file that ends where the last one does.
 */
export function readSafetensorsHeader(source: ByteSource, place: string, tally: WeightTally): void {
  const fail = (what: string): Failure => badSafetensors(place, what);
  if (isLfsPointer(source)) throw lfsPointer(place);
  const front = new ByteReader(source, 0, source.size, fail);
  if (source.size < lengthBytes) throw fail(`it has ${source.size} bytes, too few for a header`);
  const length = front.u64('the length of its header');
  if (length > limits.safetensorsHeaderBytes) {
    throw fail(
      `its header is said to have ${length} bytes; at most ${limits.safetensorsHeaderBytes} are read`,
    );
  }
  if (length > front.left) {
    throw fail(`its header is said to have ${length} bytes, but only ${front.left} follow`);
  }
  const dataStart = lengthBytes + length;
  const bytes = new ByteReader(source, lengthBytes, dataStart, fail);
  const spans = readTensors(new JsonReader(bytes, limits.nameBytes, fail), tally, fail);
  checkSpans(spans, source.size - dataStart, fail);
}

/** Where tensors lie in the data. Two lists of numbers take a fraction of what pairs would. */
interface Spans {
  readonly begins: number[];
  readonly ends: number[];
}

function readTensors(json: JsonReader, tally: WeightTally, fail: (what: string) => Failure): Spans {
  const spans: Spans = { begins: [], ends: [] };
  json.object((name) => {
    if (name === '__metadata__') json.skipTexts();
    else readTensor(json, name, tally, spans, fail);
  });
  json.end();
  return spans;
}

function readTensor(
  json: JsonReader,
  name: string,
  tally: WeightTally,
  spans: Spans,
  fail: (what: string) => Failure,
): void {
  let type: string | undefined;
  let shape: readonly number[] | undefined;
  let offsets: readonly number[] | undefined;
  const counts = (most: number): readonly number[] => {
    const read: number[] = [];
    json.list(() => {
      if (read.length === most) throw fail(`a list of tensor "${name}" has over ${most} numbers`);
      read.push(json.count());
    });
    return read;
  };
  json.object((key) => {
    if (key === 'dtype') type = json.text();
    else if (key === 'shape') shape = counts(limits.dimensions);
    else if (key === 'data_offsets') offsets = counts(2);
    else json.skip();
  });
  const [begin, end] = offsets ?? [];
  if (type === undefined || shape === undefined || begin === undefined || end === undefined) {
    throw fail(`tensor "${name}" lacks its dtype, shape or two data_offsets`);
  }
  const elements = elementsOf(shape);
  const dataType = Object.hasOwn(safetensorsTypes, type) ? safetensorsTypes[type] : undefined;
  if (dataType === undefined) throw fail(`tensor "${name}" has the unknown type "${type}"`);
  const bytes = Number.isSafeInteger(elements) ? bytesOf(elements, dataType) : undefined;
  if (bytes === undefined) throw fail(`tensor "${name}" has a shape that makes no size`);
  if (end - begin !== bytes) {
    throw fail(`tensor "${name}" takes ${bytes} bytes by its shape, ${end - begin} by its offsets`);
  }
  tally.add({ name, type, shape, elements, bytes }, fail);
  spans.begins.push(begin);
  spans.ends.push(end);
}

function checkSpans(
  { begins, ends }: Spans,
  dataBytes: number,
  fail: (what: string) => Failure,
): void {
  const beginOf = (index: number): number => begins[index] ?? 0;
  const endOf = (index: number): number => ends[index] ?? 0;
  const order = Uint32Array.from(begins.keys());
  // An empty tensor goes before the one that begins where it stands.
  order.sort((a, b) => beginOf(a) - beginOf(b) || endOf(a) - endOf(b));
  let at = 0;
  for (const index of order) {
    const begin = beginOf(index);
    if (begin < at) throw fail(`two tensors overlap at byte ${begin} of the data`);
    if (begin > at) throw fail(`no tensor covers bytes ${at} to ${begin} of the data`);
    at = endOf(index);
  }
  if (at > dataBytes) {
    throw fail(`its tensors take ${at} bytes, but only ${dataBytes} follow the header`);
  }
  if (at < dataBytes) throw fail(`${dataBytes - at} bytes follow the last tensor`);
}

export function badSafetensors(place: string, what: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-safetensors',
    fact: `${place} is not a readable safetensors file: ${what}.`,
    next: 'Check that the download is complete, or name the config.json instead.',
  });
}

function lfsPointer(place: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-safetensors',
    fact: `${place} is a Git LFS pointer, not the weights.`,
    next: 'Run "git lfs pull" in that folder, or name the config.json instead.',
  });
}

/** Names of files that an index lists, sorted. They must lie beside the index. */
export function readSafetensorsIndex(source: ByteSource, place: string): readonly string[] {
  const fail = (what: string): Failure => badSafetensors(place, what);
  const json = new JsonReader(new ByteReader(source, 0, source.size, fail), limits.nameBytes, fail);
  const names = new Set<string>();
  json.object((key) => {
    if (key !== 'weight_map') {
      json.skip();
      return;
    }
    json.object(() => {
      const name = json.text();
      // An index from a stranger must not send us to other folders.
      if (!/^[^/\\]+\.safetensors$/.test(name) || name.includes('\0')) {
        throw fail(`it lists "${name.slice(0, 60)}", which is not a safetensors file beside it`);
      }
      names.add(name);
      if (names.size > limits.shards) throw fail(`it lists over ${limits.shards} files`);
    });
  });
  json.end();
  if (names.size === 0) throw fail('its "weight_map" lists no file');
  return [...names].toSorted();
}
