import type { Known } from '../../units/known.js';
import type { AttemptSpill } from '../types.js';
import type { Hello, LimitSetMessage, SpillMessage } from './messages.js';
import type { Peer } from './party.js';

/** A limit that was asked for while the program runs; each has a higher number than the one before. */
export interface LimitOrder {
  readonly order: number;
  /** For each process on its device, counted as PLIMSOLL_MEMORY_BYTES is. */
  readonly bytes: number;
}

/** The answer of the whole program. `bytes` is above the order where something cannot give way. */
export interface LimitAnswer {
  readonly order: number;
  /** `none`: it was started without a limit, and keeps none. */
  readonly bytes: number | 'none';
  /** Empty where the limit is the one that was asked for. */
  readonly why: string;
}

/** More processes than that are of a program that starts them without end. */
const maxFigures = 4096;

/**
 * Memory of a program that can give way: what its processes moved or computed again, and whether all
 * of them keep the limit that was asked for last. It sends nothing by itself but that limit.
 */
export class Spilling {
  readonly #onAnswer: (answer: LimitAnswer) => void;
  /** The limit of the attempt's start; undefined is none. */
  readonly #startBytes: number | undefined;
  /** Also of processes that have left. */
  readonly #figures = new Map<Peer, SpillMessage>();
  readonly #peers = new Map<Peer, { readonly hello: Hello; answer: LimitSetMessage | undefined }>();
  #canSpill = false;
  #order: LimitOrder | undefined;
  #answered: LimitAnswer | undefined;

  constructor(startBytes: number | undefined, onAnswer: (answer: LimitAnswer) => void) {
    this.#startBytes = startBytes;
    this.#onAnswer = onAnswer;
  }

  /** Whether the program could run with spilling: one of its processes said so, and none stood aside. */
  get canSpill(): boolean {
    return this.#canSpill && [...this.#figures.values()].every(({ aside }) => aside === null);
  }

  /** All processes together; undefined where nothing gave way and nothing stood aside. */
  get figures(): AttemptSpill | undefined {
    const all = [...this.#figures.values()];
    const total = (name: 'bytesOut' | 'bytesBack' | 'recomputedSeconds' | 'stallSeconds') =>
      all.reduce((sum, one) => sum + one[name], 0);
    const aside = all.find((one) => one.aside !== null)?.aside ?? undefined;
    const recomputedSeconds = total('recomputedSeconds');
    const moved = total('bytesOut') > 0 || recomputedSeconds > 0;
    if (!moved && aside === undefined && all.every(({ active }) => !active)) return undefined;
    return {
      bytesOut: total('bytesOut'),
      bytesBack: total('bytesBack'),
      recomputedSeconds: Math.round(recomputedSeconds * 1000) / 1000,
      stallSeconds: Math.round(total('stallSeconds') * 1000) / 1000,
      ...(aside !== undefined && { aside }),
    };
  }

  /** Whether a process that is there now can keep another limit. */
  get hears(): boolean {
    return [...this.#peers.values()].some(({ hello }) => hello.spill);
  }

  /** The limit that was asked for last; else that of the start. */
  get limitBytes(): Known<number> {
    return this.#order?.bytes ?? this.#startBytes ?? 'unknown';
  }

  join(peer: Peer, hello: Hello): void {
    this.#canSpill ||= hello.spill;
    const answer = this.#peers.get(peer)?.answer;
    this.#peers.set(peer, { hello, answer });
    // Said again when a program declares more; it has heard of the limit then.
    if (this.#order !== undefined && answer === undefined && hello.spill) this.#send(peer);
  }

  leave(peer: Peer): void {
    this.#peers.delete(peer);
    this.#judge();
  }

  figuresOf(peer: Peer, figures: SpillMessage): void {
    if (this.#figures.has(peer) || this.#figures.size < maxFigures)
      this.#figures.set(peer, figures);
  }

  limitSet(peer: Peer, answer: LimitSetMessage): void {
    const known = this.#peers.get(peer);
    if (known === undefined || this.#order === undefined) return;
    // The answer to an earlier order says nothing of this one.
    if (answer.order !== undefined && answer.order !== this.#order.order) return;
    known.answer = answer;
    this.#judge();
  }

  /** Asks all processes to keep a limit from now on; the answer comes when each of them does. */
  ask(order: LimitOrder): void {
    if (this.#order !== undefined && order.order <= this.#order.order) return;
    this.#order = order;
    for (const known of this.#peers.values()) known.answer = undefined;
    for (const [peer, { hello }] of this.#peers) if (hello.spill) this.#send(peer);
    this.#judge();
  }

  #send(peer: Peer): void {
    if (this.#order !== undefined) peer.send({ type: 'limit', ...this.#order });
  }

  /** Tells the answer of the whole program once all have spoken, and again when it is another. */
  #judge(): void {
    const order = this.#order;
    if (order === undefined) return;
    const onDevice = [...this.#peers.values()].filter(({ hello }) => countsOnDevice(hello));
    const able = onDevice.filter(({ hello }) => hello.spill);
    const answers = able.flatMap(({ answer }) => (answer === undefined ? [] : [answer]));
    // Between two of its processes a program holds nothing: the next one hears of the limit.
    if (answers.length < able.length || (this.#answered?.order === order.order && !able.length)) {
      return;
    }
    const least = { able: able.length, all: onDevice.length, startBytes: this.#startBytes };
    const answer = { order: order.order, ...limitInForce(order.bytes, answers, least) };
    if (this.#answered?.order === answer.order && this.#answered.bytes === answer.bytes) return;
    this.#answered = answer;
    this.#onAnswer(answer);
  }
}

/** The limit that all processes keep together, and why it is not the one that was asked for. */
function limitInForce(
  askedBytes: number,
  answers: readonly LimitSetMessage[],
  known: { readonly able: number; readonly all: number; readonly startBytes: number | undefined },
): Pick<LimitAnswer, 'bytes' | 'why'> {
  const { able, all, startBytes = 'none' } = known;
  // A higher limit needs no answer: a program that does not hear of it takes no more than before.
  const most = Math.max(askedBytes, ...answers.map((answer) => answer.bytes));
  const isLower = startBytes === 'none' || askedBytes < startBytes;
  if (isLower && able < Math.max(1, all)) {
    const why =
      all === 0
        ? 'No process of the program answers to the SDK.'
        : 'A process of the program cannot give way.';
    return { bytes: startBytes === 'none' ? startBytes : Math.max(startBytes, most), why };
  }
  return { bytes: most, why: most > askedBytes ? 'With less it cannot go on.' : '' };
}

/** A loader's worker holds no memory of a card, and has no limit there. */
function countsOnDevice({ torch, hooks, spill, device }: Hello): boolean {
  return torch !== null && (spill || hooks.length > 0 || device.startsWith('cuda'));
}
