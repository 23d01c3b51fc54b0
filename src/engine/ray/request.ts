import { formatBytes, MiB } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { noSuchGpus, tooLarge } from '../job-failures.js';
import { type RayOffer, typeLabel } from './nodes.js';

/** Ray counts our own process on the node to the job's memory, too. */
const supervisorBytes = 256 * MiB;
/** Ray counts resources in ten-thousandths. */
const shareSteps = 10_000;
/** Of a resource that only says which node is meant. */
const trifle = 0.001;

/** The request to Ray. */
export interface RayRequest {
  /** A share of one GPU, or whole ones; 0 for a job of the host. */
  readonly numGpus: number;
  readonly numCpus: number;
  /** Of the host; 0 where nothing is asked for. */
  readonly memoryBytes: number;
  readonly resources: Readonly<Record<string, number>>;
  readonly labels: Readonly<Record<string, string>>;
  /** Limit of the job on each GPU, or on the host; `none` if it has whole GPUs. */
  readonly limitBytes: number | 'none';
  /** The part of the CUDA context. */
  readonly contextBytes: number;
  /** In words, for the person who submits. */
  readonly why: string;
  readonly notes: readonly string[];
}

/** The need of a job, on each of its GPUs; of host memory if `gpus` is 0. */
export interface RayNeed {
  readonly bytes: Known<number>;
  readonly gpus: number;
}

/**
 * The cheapest request that is enough: a share of the smallest GPU that holds the job, or whole GPUs
 * where it needs several of them or nothing is known.
 *
 * @example
 * rayRequest({ bytes: 20 * GiB, gpus: 1 }, [a100of80]).numGpus; // 0.25
 */
export function rayRequest({ bytes, gpus }: RayNeed, offers: readonly RayOffer[]): RayRequest {
  if (gpus === 0) return hostRequest(bytes);
  const counted = offers.filter(({ count }) => count >= gpus);
  if (counted.length === 0) throw noSuchGpus(gpus, offers);
  if (!isKnown(bytes)) return wholeRequest(gpus, [needUnknown]);
  const enough = counted.filter(
    ({ capacityBytes }) => isKnown(capacityBytes) && capacityBytes >= bytes,
  );
  const unmeasured = counted.find(({ capacityBytes }) => !isKnown(capacityBytes));
  if (enough.length === 0 && unmeasured === undefined) throw tooLarge(bytes, counted);
  const smallest = enough
    .filter((offer) => canBeMeant(offer, offers))
    .toSorted((a, b) => Number(a.capacityBytes) - Number(b.capacityBytes))[0];
  if (smallest !== undefined) return requestOf(bytes, gpus, smallest, offers);
  return wholeRequest(gpus, [sizeUnknown((unmeasured ?? enough[0])?.type ?? '')]);
}

/** Jobs come to this card alone, or to those that have more. */
function canBeMeant(offer: RayOffer, offers: readonly RayOffer[]): boolean {
  if (offer.typeBy !== 'none') return true;
  return offers.every(
    ({ capacityBytes }) => isKnown(capacityBytes) && capacityBytes >= Number(offer.capacityBytes),
  );
}

function hostRequest(bytes: Known<number>): RayRequest {
  const known = isKnown(bytes);
  return {
    ...nothing,
    // Without any resource Ray would run it on the head.
    numCpus: known ? 0 : 1,
    memoryBytes: known ? bytes + supervisorBytes : 0,
    limitBytes: known ? bytes : 'none',
    why: known ? `${formatBytes(bytes)} of host memory` : 'one CPU',
  };
}

const nothing: Omit<RayRequest, 'limitBytes' | 'why'> = {
  numGpus: 0,
  numCpus: 0,
  memoryBytes: 0,
  resources: {},
  labels: {},
  contextBytes: 0,
  notes: [],
};

function wholeRequest(gpus: number, notes: readonly string[]): RayRequest {
  const why = gpus === 1 ? 'one whole GPU' : `${gpus} whole GPUs`;
  return { ...nothing, numGpus: gpus, limitBytes: 'none', why, notes };
}

function requestOf(
  bytes: number,
  gpus: number,
  offer: RayOffer,
  offers: readonly RayOffer[],
): RayRequest {
  const { type, contextBytes } = offer;
  const capacityBytes = Number(offer.capacityBytes);
  const named = type === '' ? '' : ` (${type})`;
  const common = { contextBytes, ...pinned(offer, offers), notes: ambiguity(offer) };
  if (gpus > 1) {
    const why = `${gpus} whole GPUs of ${formatBytes(capacityBytes)}${named}`;
    return { ...wholeRequest(gpus, []), ...common, why };
  }
  const numGpus = shareOf(bytes, capacityBytes);
  return {
    ...nothing,
    ...common,
    numGpus,
    limitBytes: Math.min(capacityBytes, Math.floor(numGpus * capacityBytes)),
    why: `${numGpus} of a GPU of ${formatBytes(capacityBytes)}${named}`,
  };
}

/** The least share of a card that holds so much. */
export function shareOf(bytes: number, capacityBytes: number): number {
  const steps = Math.ceil((bytes / capacityBytes) * shareSteps);
  // The share stands for whole bytes: what rounding took away is one step more.
  const enough = Math.floor((steps / shareSteps) * capacityBytes) >= bytes ? steps : steps + 1;
  return Math.min(shareSteps, Math.max(1, enough)) / shareSteps;
}

/** A share of another card stands for other bytes: where there are several, the type is asked for. */
function pinned(
  { type, typeBy, capacityBytes }: RayOffer,
  offers: readonly RayOffer[],
): Pick<RayRequest, 'resources' | 'labels'> {
  const isAlone = offers.every((offer) => offer.capacityBytes === capacityBytes);
  return {
    resources: !isAlone && typeBy === 'resource' ? { [`accelerator_type:${type}`]: trifle } : {},
    labels: !isAlone && typeBy === 'label' ? { [typeLabel]: type } : {},
  };
}

const needUnknown =
  'Nothing is known of what it needs: it gets whole GPUs, and its peak is measured.';

function configure(type: string): string {
  return `Name it in plimsoll.config.json: "ray": { "gpuBytes": { "${type || 'gpu'}": BYTES } }.`;
}

function sizeUnknown(type: string): string {
  return `How much memory the GPU has that it comes to is unknown: it gets whole GPUs. ${configure(type)}`;
}

function ambiguity({ isAmbiguous, type, capacityBytes }: RayOffer): readonly string[] {
  if (!isAmbiguous || !isKnown(capacityBytes)) return [];
  return [
    `Cards named ${type} have different sizes; ${formatBytes(capacityBytes)} is assumed. ${configure(type)}`,
  ];
}
