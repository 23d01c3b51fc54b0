import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';
import { largestRequest } from '../allocator/sizes.js';
import { type Parallel, parallelWays } from '../parallel.js';
import { type EventStream, EventStreamBuilder } from './event-stream.js';
import { cublasWorkspace } from './recorded-events.js';
import type { UnsureScratch } from './unsure-kernels.js';

/** What an allocation is for: the letters that `python -m plimsoll_trace` writes. */
export const traceCategories = ['w', 'g', 'o', 'x', 'k', 't', 'b', 'p', 'r', 'u'] as const;
export type TraceCategory = (typeof traceCategories)[number];

/**
 * The facts of the last line of a trace that make its estimate more or less sure, each read by its name.
 * python/plimsoll_trace/trace-format.json says what each means.
 */
export function readFacts(flag: (name: string) => boolean, bytes: (name: string) => number) {
  return {
    skipsLayers: flag('skipsLayers'),
    compiled: flag('compiled'),
    fused: flag('fused'),
    graphs: flag('graphs'),
    ragged: flag('ragged'),
    drawn: flag('drawn'),
    benchmark: flag('benchmark'),
    guessesTrials: flag('guessesTrials'),
    ended: flag('ended'),
    maybeMoreBytes: bytes('maybeMoreBytes'),
    maybeLessBytes: bytes('maybeLessBytes'),
  };
}
type TraceFacts = Readonly<ReturnType<typeof readFacts>>;

/** The requests of a job to CUDA's allocator, as a run on the meta device found them. */
export interface Trace extends TraceFacts {
  readonly torch: string;
  readonly stream: EventStream;
  /** What the allocation of each slot is for: an index into `traceCategories`. */
  readonly category: Uint8Array;
  /** Whose it is: an index into `strings`. */
  readonly module: Int32Array;
  readonly strings: readonly string[];
  /** How many allocations convolutions made. */
  readonly convolutions: number;
  /** Scratch memory of kernels that may not be the ones that run. */
  readonly unsure: readonly UnsureScratch[];
  readonly parameters: number;
  readonly parameterBytes: number;
  /** What the trace itself had to assume. */
  readonly notes: readonly string[];
  /** A program as it is, from its start; not the steps of one workload alone. */
  readonly program: boolean;
  /** How the program spreads its model over processes, where a wrapper of PyTorch's does it. */
  readonly parallel?: Parallel | undefined;
  /** What the program's answer depends on; left out where that is not all known. */
  readonly files?: ProgramFiles | undefined;
}

/** Absolute paths of files and folders, by what a program did with them: it read, looked for or listed them. */
export interface ProgramFiles {
  readonly read: readonly string[];
  readonly looked: readonly string[];
  readonly listed: readonly string[];
  /** Folders in which Python looks for modules. */
  readonly modules: readonly string[];
}

/** The only version there is. */
const version = 1;
/** A line is a few numbers or the name of a module; the header holds the arguments of a script. */
const longestLine = 1 * MiB;
/** Names of ops and modules: a model of 1000 layers has some ten thousand. */
const maxStrings = 1_000_000;
/** All names together; more would be no names. */
const maxStringCharacters = 64 * MiB;
const maxNotes = 100;
/** FSDP uses four beside the first; a stream's number is one byte. */
const maxStreams = 255;
const workspace = traceCategories.indexOf('k');
const categoryOf = new Map<unknown, number>(traceCategories.map((letter, at) => [letter, at]));
/**
 * What the driver and libraries take of the address space when kernels of a kind first run, as gaps between the
 * segments of recorded runs on an H200 show: a heap for kernels that check what they read (10 MiB in 60 of 60),
 * cuDNN for images (12 MiB in 50 of 57, 8 or 14 in the others) and for lines (4 MiB, and 6 in 7 of 9). Until the
 * first kernel of all runs, a process is a fresh one.
 */
export const launchAddresses: ReadonlyMap<string, readonly number[]> = new Map([
  ['checking', [10 * MiB]],
  ['images', [12 * MiB]],
  ['lines', [4 * MiB, 6 * MiB]],
]);
/** The same for cuBLAS, just before its workspace: 64 MiB, and 2 elsewhere. */
const blasAddresses = [2 * MiB, 64 * MiB];
/** The same for other ops of cuDNN: a process holds 6 to 8 MiB more beside its segments where it was used. */
const cudnnAddresses = 8 * MiB;
/** Ops that cuDNN runs: convolutions, recurrent layers, and attention in its own kernels. */
const cudnnOp = /cudnn|\bconvolution/;
/** Where a convolution gets no workspace, PyTorch tries cuDNN's next kernel; the last ones need none. */
const convolution = /\bconvolution/;

/**
 * Reads the JSON lines of a trace as they come in. Anything but a whole trace is a `Failure` that
 * names the line.
 *
 * @example
 * const trace = await readTrace(createReadStream('trace.jsonl', 'utf8'));
 * replay(trace.stream).peakReservedBytes;
 */
export async function readTrace(chunks: AsyncIterable<string>): Promise<Trace> {
  const reader = new TraceReader();
  let rest = '';
  for await (const chunk of chunks) {
    const text = rest + chunk;
    let from = 0;
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
      reader.line(text, from, end);
      from = end + 1;
    }
    rest = text.slice(from);
    // It is refused as a line, before it grows without end.
    if (rest.length > longestLine) reader.line(rest, 0, rest.length);
  }
  if (rest !== '') reader.line(rest, 0, rest.length);
  return reader.finish();
}

class TraceReader {
  readonly #builder = new EventStreamBuilder();
  /** Slots of what is allocated now, by id. */
  readonly #live = new Map<number, number>();
  readonly #category: number[] = [];
  readonly #module: number[] = [];
  readonly #strings: string[] = [];
  /** By string: whether it names an op that cuDNN runs, and a convolution. */
  readonly #namesCudnn: boolean[] = [];
  readonly #namesConvolution: boolean[] = [];
  readonly #usual = new EventLine();
  #stringCharacters = 0;
  #line = 0;
  #torch: string | undefined;
  #hasBlas = false;
  #hasCudnn = false;
  #convolutions = 0;
  readonly #unsure: UnsureScratch[] = [];
  #footer: Record<string, unknown> | undefined;
  #program = false;

  /** The line is the text from `from` on, before `end`. */
  line(text: string, from: number, end: number): void {
    this.#line += 1;
    if (end - from > longestLine) this.#refuse('it is too long');
    if (this.#footer !== undefined) this.#refuse('it comes after the end');
    const usual = this.#torch === undefined ? undefined : this.#usual.read(text, from, end);
    if (usual === 'free') return this.#free(this.#usual.id);
    if (usual === 'alloc') {
      const { id, bytes, op, module, letter } = this.#usual;
      return this.#alloc(id, bytes, op, module, letter, 0);
    }
    const value = this.#parse(text.slice(from, end));
    if (!Array.isArray(value)) this.#object(asObject(value) ?? this.#refuse('it is not an event'));
    else if (this.#torch === undefined) this.#refuse('the header must come first');
    else this.#event(value);
  }

  finish(): Trace {
    this.#line += 1;
    const footer = this.#footer ?? this.#refuse('the trace ends before its end');
    const { parameters, parameterBytes, notes = [], parallel, files } = footer;
    if (!Array.isArray(notes)) this.#refuse('"notes" is not a list');
    return {
      torch: this.#torch ?? '',
      stream: this.#builder.finish(),
      category: Uint8Array.from(this.#category),
      module: Int32Array.from(this.#module),
      strings: this.#strings,
      convolutions: this.#convolutions,
      unsure: this.#unsure,
      parameters: this.#count(parameters),
      parameterBytes: this.#count(parameterBytes),
      notes: notes.slice(0, maxNotes).map(String),
      program: this.#program,
      ...readFacts(
        (name) => footer[name] === true,
        (name) => this.#count(footer[name] ?? 0),
      ),
      ...(parallel !== undefined && { parallel: this.#parallel(asObject(parallel) ?? {}) }),
      ...(isProgramFiles(files) && { files }),
    };
  }

  #parallel({ way, gpus, nodes, tensorParallel }: Record<string, unknown>): Parallel {
    const known = parallelWays.find((one) => one === way) ?? this.#refuse('"parallel" is unknown');
    const ranks = {
      gpus: this.#count(gpus),
      nodes: this.#count(nodes),
      tensorParallel: this.#count(tensorParallel),
    };
    if (Object.values(ranks).includes(0)) this.#refuse('"parallel" has no ranks');
    return { way: known, ...ranks };
  }

  #refuse(why: string): never {
    throw new Failure({
      kind: 'input',
      code: 'bad-trace',
      fact: `Line ${this.#line} of the trace cannot be used: ${why}.`,
      next: 'Trace again with the Python part of this version.',
    });
  }

  #object(value: Record<string, unknown>): void {
    if (this.#torch !== undefined) {
      if (value['end'] !== true) this.#refuse('it is not an event');
      this.#footer = value;
      return;
    }
    if (value['plimsoll'] !== 'trace') this.#refuse('it is not the header of a trace');
    if (value['version'] !== version) this.#refuse(`only version ${version} is known`);
    this.#torch = this.#text(value['torch']);
    this.#program = Array.isArray(asObject(value['workload'])?.['program']);
    // As in every recorded job of one workload: a small segment was cached before the model was built.
    if (!this.#program) this.#builder.free(this.#allocate(1, workspace, 0));
  }

  #event(event: readonly unknown[]): void {
    switch (event[0]) {
      case 'a':
        return this.#alloc(
          this.#count(event[1]),
          this.#count(event[2]),
          this.#count(event[3]),
          this.#count(event[4]),
          event[5],
          event[6] === undefined ? 0 : this.#count(event[6]),
        );
      case 'o':
        return this.#scratch(event);
      case 'f':
        return this.#free(this.#count(event[1]));
      case 's':
        return this.#string(this.#count(event[1]), this.#text(event[2]));
      case 'r':
        return this.#builder.use(this.#slotOf(this.#count(event[1])));
      case 'w':
        return this.#builder.wait(this.#count(event[1]));
      case 'm':
        return this.#mark(this.#text(event[1]));
      case 'c':
        return this.#builder.emptyCache();
      case 'k':
        return this.#launch(this.#text(event[1]));
      default:
        return this.#refuse('it is of an unknown kind');
    }
  }

  /** The first kernel of a kind runs. */
  #launch(kind: string): void {
    if (kind === 'kernel') return this.#builder.firstKernel();
    const taken = launchAddresses.get(kind) ?? this.#refuse('its kind of kernel is unknown');
    if (kind !== 'checking') this.#hasCudnn = true;
    for (const bytes of taken) this.#builder.takeAddresses(bytes);
  }

  #alloc(
    id: number,
    bytes: number,
    op: number,
    module: number,
    letter: unknown,
    stream: number,
  ): void {
    const category = categoryOf.get(letter);
    if (this.#live.has(id)) this.#refuse(`${id} is allocated already`);
    if (category === undefined) return this.#refuse('its category is unknown');
    if (op >= this.#strings.length || module >= this.#strings.length) {
      this.#refuse('it names a string that was not given');
    }
    if (!this.#hasCudnn && this.#namesCudnn[op] === true) {
      this.#hasCudnn = true;
      this.#builder.takeAddresses(cudnnAddresses);
    }
    if (!this.#hasBlas && category === workspace && bytes === cublasWorkspace) {
      this.#hasBlas = true;
      for (const taken of blasAddresses) this.#builder.takeAddresses(taken);
    }
    const convolves = this.#namesConvolution[op] === true;
    if (convolves) this.#convolutions += 1;
    const spare = convolves && category === workspace;
    if (stream > maxStreams) this.#refuse('there are too many streams');
    this.#live.set(id, this.#allocate(bytes, category, module, spare, stream));
  }

  /** Scratch memory of a convolution, given back at once, whose kernel is not sure. */
  #scratch([, size, other, chance, choice]: readonly unknown[]): void {
    if (!(typeof chance === 'number' && chance >= 0 && chance <= 1)) {
      this.#refuse('its chance is none');
    }
    const at = this.#builder.length;
    const otherBytes = this.#count(other);
    if (otherBytes > largestRequest) this.#refuse('it asks for too much');
    this.#builder.scratch(this.#count(size));
    this.#category.push(workspace);
    this.#module.push(0);
    this.#convolutions += 1;
    this.#unsure.push({ at, otherBytes, chance, choice: this.#count(choice) });
  }

  #allocate(bytes: number, category: number, module: number, spare = false, stream = 0): number {
    const slot = spare ? this.#builder.allocSpare(bytes) : this.#builder.alloc(bytes, stream);
    this.#category.push(category);
    this.#module.push(module);
    return slot;
  }

  #free(id: number): void {
    const slot = this.#slotOf(id);
    this.#live.delete(id);
    this.#builder.free(slot);
  }

  #slotOf(id: number): number {
    return this.#live.get(id) ?? this.#refuse(`${id} is not allocated`);
  }

  #string(index: number, text: string): void {
    this.#stringCharacters += text.length;
    if (index !== this.#strings.length) this.#refuse('strings must come in their order');
    if (index >= maxStrings || this.#stringCharacters > maxStringCharacters) {
      this.#refuse('there are too many strings');
    }
    this.#strings.push(text);
    this.#namesCudnn.push(cudnnOp.test(text));
    this.#namesConvolution.push(convolution.test(text));
  }

  #mark(name: string): void {
    this.#builder.mark(name);
    // What building the model took is over; what counts is what the steps take.
    if (name === 'ready') this.#builder.resetPeaks();
  }

  #parse(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      return this.#refuse('it is not JSON');
    }
  }

  #count(value: unknown): number {
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
    return this.#refuse('a number in it is not a whole one');
  }

  #text(value: unknown): string {
    return typeof value === 'string' ? value : this.#refuse('a text in it is none');
  }
}

/** Of a trace, or of what was kept of one. */
export function isProgramFiles(value: unknown): value is ProgramFiles {
  return ['read', 'looked', 'listed', 'modules'].every((kind) => {
    const paths: unknown = Reflect.get(Object(value), kind);
    return Array.isArray(paths) && paths.every((path) => typeof path === 'string');
  });
}

function asObject(value: unknown): Record<string, unknown> | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.fromEntries(Object.entries(value));
}

const zero = 48;
const comma = 44;
const quote = 34;
const closing = 93;
/** More digits are left to `JSON.parse`: a number of fewer is exact. */
const maxDigits = 15;
const opening = 91;
const a = 97;
const f = 102;
/** `["a",` and `["f",` */
const startLength = 5;

/**
 * A line of a trace as nearly all of them are: `["a",7,4096,3,1,"x"]`, a request on the first stream, or `["f",7]`, its
 * free. There are up to millions, and `JSON.parse` takes most of the time to read a trace.
 *
 * @example
 * const line = new EventLine();
 * line.read('["f",7]\n', 0, 7); // 'free'
 * line.id; // 7
 */
export class EventLine {
  id = 0;
  bytes = 0;
  op = 0;
  module = 0;
  /** The letter of its category. */
  letter = '';
  #text = '';
  #at = 0;

  /** Reads the text from `from` on, before `end`; nothing where it is written otherwise. */
  read(text: string, from: number, end: number): 'alloc' | 'free' | undefined {
    const kind = text.charCodeAt(from + 2);
    const isAlloc = kind === a;
    const starts =
      (isAlloc || kind === f) &&
      text.charCodeAt(from) === opening &&
      text.charCodeAt(from + 1) === quote &&
      text.charCodeAt(from + 3) === quote &&
      text.charCodeAt(from + 4) === comma;
    if (!starts) return undefined;
    this.#text = text;
    this.#at = from + startLength;
    this.id = this.#number();
    if (!isAlloc) return this.id >= 0 && this.#closesAt(end) ? 'free' : undefined;
    this.bytes = this.#next();
    this.op = this.#next();
    this.module = this.#next();
    const at = this.#at;
    const wellFormed =
      this.id >= 0 &&
      this.bytes >= 0 &&
      this.op >= 0 &&
      this.module >= 0 &&
      text.charCodeAt(at) === comma &&
      text.charCodeAt(at + 1) === quote &&
      text.charCodeAt(at + 3) === quote;
    if (!wellFormed) return undefined;
    this.letter = text.charAt(at + 2);
    this.#at = at + 4;
    return this.#closesAt(end) ? 'alloc' : undefined;
  }

  #closesAt(end: number): boolean {
    return this.#at === end - 1 && this.#text.charCodeAt(this.#at) === closing;
  }

  /** The number after a comma; -1 where there is none. */
  #next(): number {
    if (this.#text.charCodeAt(this.#at) !== comma) return -1;
    this.#at += 1;
    return this.#number();
  }

  /** A whole number as JSON writes it, without a sign; -1 where there is none. */
  #number(): number {
    const text = this.#text;
    const from = this.#at;
    let at = from;
    let value = 0;
    for (; ; at += 1) {
      const digit = text.charCodeAt(at) - zero;
      if (!(digit >= 0 && digit <= 9)) break;
      value = value * 10 + digit;
    }
    this.#at = at;
    const digits = at - from;
    const leadingZero = digits > 1 && text.charCodeAt(from) === zero;
    return digits === 0 || digits > maxDigits || leadingZero ? -1 : value;
  }
}
