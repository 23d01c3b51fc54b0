/**
 * The cheapest way into a limit, by what one step was measured or predicted to take. The SDK has the
 * same rule for programs without a supervisor; test/fixtures/spill-rules.json holds cases of both.
 */

/** The rest is lost between blocks of the allocator. */
const usableShare = 0.96;
/** Of a step; its backward takes the other two thirds. */
const forwardShare = 1 / 3;
/** A copy that takes longer than this share of the time beside it is waited for. */
const hiddenShare = 0.8;
/** Blocks that differ by less than this in seconds for each byte cost the same. */
const alikeRatio = 1.25;
/** The bytes of one part of a loss over a vocabulary. */
const lossPartBytes = 64 * 2 ** 20;

/** A part of the model that can be computed again. */
export interface SpillBlock {
  readonly name: string;
  /** What autograd keeps of it. */
  readonly bytes: number;
  /** What computing it again takes. */
  readonly seconds: number;
}

/** One step, as it was measured or predicted. */
export interface MeasuredStep {
  /** In the order of the forward. */
  readonly blocks: readonly SpillBlock[];
  /** What autograd keeps outside of them. */
  readonly otherBytes: number;
  /** Weights, gradients, optimizer states. */
  readonly fixedBytes: number;
  /** The part of these that only the step of the optimizer uses. */
  readonly optimizerBytes: number;
  /** What a step needs for a moment beside all that. */
  readonly temporaryBytes: number;
  /** The part of these that a loss in parts does not need. */
  readonly lossBytes: number;
  readonly outBytesPerSecond: number;
  readonly backBytesPerSecond: number;
  readonly stepSeconds: number;
  /** Room for spilled bytes in the memory of the host. */
  readonly hostBytes: number;
}

export interface SpillPlan {
  readonly fits: boolean;
  readonly stepSeconds: number;
  /** The smallest limit that the step fits into, whatever gives way. */
  readonly leastBytes: number;
  /** The names of the blocks that are computed again. */
  readonly recompute: readonly string[];
  readonly spillBytes: number;
  readonly lossParts: number;
  readonly optimizerToHost: boolean;
}

interface Choice {
  readonly seconds: number;
  readonly recompute: readonly SpillBlock[];
  readonly spillBytes: number;
  readonly toHost: boolean;
}

/**
 * Keeps what fits, computes again what costs least for its bytes, and spills the rest.
 *
 * @example
 * decideSpill(measured, 12 * GiB); // { fits: true, stepSeconds: 0.139, recompute: ['layers.1', ...], ... }
 */
export function decideSpill(measured: MeasuredStep, limitBytes: number): SpillPlan {
  const { blocks, fixedBytes, optimizerBytes, temporaryBytes, lossBytes, stepSeconds } = measured;
  const usable = Math.floor(limitBytes * usableShare);
  const saved = bytesOf(blocks) + measured.otherBytes;
  const leastBytes = leastSpillLimit(measured);
  const nothing = { recompute: [], spillBytes: 0, optimizerToHost: false };
  if (fixedBytes + temporaryBytes + saved <= usable) {
    return { fits: true, stepSeconds, leastBytes, lossParts: 1, ...nothing };
  }
  const lossParts = Math.max(1, Math.ceil(lossBytes / lossPartBytes));
  const groups = byCost(blocks);
  let best: Choice | undefined;
  for (const toHost of [false, true]) {
    const fixed = fixedBytes - (toHost ? optimizerBytes : 0);
    const over = fixed + temporaryBytes - lossBytes + saved - usable;
    for (let count = 0; count <= blocks.length; count++) {
      const choice = choiceOf(measured, chosenBlocks(groups, count, over), over, toHost);
      if (choice !== undefined && choice.seconds < (best?.seconds ?? Infinity)) best = choice;
    }
  }
  if (best === undefined || fixedBytes > usable) {
    return { fits: false, stepSeconds, leastBytes, lossParts, ...nothing };
  }
  const again = new Set(best.recompute);
  return {
    fits: true,
    stepSeconds: best.seconds,
    leastBytes,
    recompute: blocks.filter((block) => again.has(block)).map(({ name }) => name),
    spillBytes: best.spillBytes,
    lossParts,
    optimizerToHost: best.toHost,
  };
}

/** Undefined where there is not so much to spill, or the host has no room for it. */
function choiceOf(
  measured: MeasuredStep,
  chosen: readonly SpillBlock[],
  over: number,
  toHost: boolean,
): Choice | undefined {
  const { blocks, stepSeconds, outBytesPerSecond: out, backBytesPerSecond: back } = measured;
  const freed = bytesOf(chosen);
  const spillBytes = Math.max(0, over - freed + workingBytes(blocks, chosen));
  const left = bytesOf(blocks) + measured.otherBytes - freed;
  const moved = toHost ? measured.optimizerBytes : 0;
  if (spillBytes > left || spillBytes + moved > measured.hostBytes) return undefined;
  const again = chosen.reduce((sum, { seconds }) => sum + seconds, 0);
  const forward = stepSeconds * forwardShare;
  const backward = stepSeconds - forward + again;
  const waits =
    Math.max(0, spillBytes / out - hiddenShare * forward) +
    Math.max(0, spillBytes / back - hiddenShare * backward);
  const seconds = stepSeconds + again + waits + moved / out + moved / back;
  return { seconds, recompute: chosen, spillBytes, toHost };
}

/** Groups of blocks that cost alike for each byte, the cheapest first; in a group by the forward. */
function byCost(blocks: readonly SpillBlock[]): readonly (readonly SpillBlock[])[] {
  const useful = blocks.filter(({ bytes }) => bytes > 0);
  const place = new Map(useful.map((block, index) => [block, index]));
  const byPlace = (one: SpillBlock, other: SpillBlock) =>
    (place.get(one) ?? 0) - (place.get(other) ?? 0);
  const groups: SpillBlock[][] = [];
  for (const block of useful.toSorted((a, b) => costOf(a) - costOf(b) || byPlace(a, b))) {
    const last = groups.at(-1);
    const [first] = last ?? [];
    if (last !== undefined && first !== undefined && costOf(block) <= alikeRatio * costOf(first)) {
      last.push(block);
    } else groups.push([block]);
  }
  return groups.map((group) => group.toSorted(byPlace));
}

function costOf({ seconds, bytes }: SpillBlock): number {
  return seconds / bytes;
}

/**
 * The cheapest so many. Of blocks that cost alike the first are left to be spilled and the last to be
 * kept: the copies start early then, and the room for their return comes early, too.
 */
function chosenBlocks(
  groups: readonly (readonly SpillBlock[])[],
  count: number,
  over: number,
): readonly SpillBlock[] {
  const chosen: SpillBlock[] = [];
  for (const group of groups) {
    const rest = count - chosen.length;
    if (rest >= group.length) {
      chosen.push(...group);
      continue;
    }
    if (rest > 0) {
      const likely = bytesOf(chosen) + bytesOf(group.slice(0, rest));
      let [start, before] = [0, 0];
      while (before < over - likely && start < group.length - rest - 1) {
        before += group[start]?.bytes ?? 0;
        start++;
      }
      chosen.push(...group.slice(start, start + rest));
    }
    break;
  }
  return chosen;
}

/** What a block that is computed again holds beyond what later blocks have given back by then. */
function workingBytes(blocks: readonly SpillBlock[], chosen: readonly SpillBlock[]): number {
  const again = new Set(chosen);
  let [most, givenBack] = [0, 0];
  for (const block of blocks.toReversed()) {
    if (again.has(block)) most = Math.max(most, block.bytes - givenBack);
    else givenBack += block.bytes;
  }
  return most;
}

/** The limit with all blocks computed again, and all else spilled as far as the host has room. */
function leastSpillLimit(measured: MeasuredStep): number {
  const { blocks, fixedBytes, optimizerBytes, hostBytes, otherBytes } = measured;
  const largest = blocks.reduce((most, { bytes }) => Math.max(most, bytes), 0);
  const temporary = measured.temporaryBytes - measured.lossBytes;
  const needs = [0, optimizerBytes]
    .filter((moved) => moved <= hostBytes)
    .map((moved) => {
      const kept = Math.max(0, otherBytes - (hostBytes - moved));
      return fixedBytes - moved + temporary + largest + kept;
    });
  return Math.ceil(Math.max(fixedBytes, Math.min(...needs)) / usableShare);
}

function bytesOf(blocks: readonly SpillBlock[]): number {
  return blocks.reduce((sum, { bytes }) => sum + bytes, 0);
}
