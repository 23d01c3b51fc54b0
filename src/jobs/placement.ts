import type { Need } from './types.js';

export const placementPolicies = ['best-fit', 'balanced'] as const;
/** `best-fit` fills one GPU before the next, leaving large free blocks; `balanced` spreads the jobs. */
export type PlacementPolicy = (typeof placementPolicies)[number];

/** As much of a room as placement looks at. */
export interface Room {
  readonly id: string;
  readonly loadLineBytes: number;
  readonly freeBytes: number;
}

const hostId = 'host';

/** The devices that a job could ever be put on, and how many of them it takes. */
export function candidates<R extends { readonly id: string }>(
  rooms: readonly R[],
  need: Pick<Need, 'gpus'>,
): { readonly rooms: readonly R[]; readonly count: number } {
  const onHost = goesToHost(rooms, need);
  return {
    rooms: rooms.filter(({ id }) => (id === hostId) === onHost),
    count: onHost ? 1 : need.gpus,
  };
}

/**
 * Whether a job takes the memory of the host, and so stands in the way of others that do, and of no others. Without
 * a GPU one device is the host. Several devices are several GPUs: the host is only one.
 */
export function goesToHost(
  rooms: readonly { readonly id: string }[],
  { gpus }: Pick<Need, 'gpus'>,
): boolean {
  return gpus === 0 || (gpus === 1 && rooms.every(({ id }) => id === hostId));
}

/**
 * Chooses devices for a job: as many as it asks for, each with room for it, or undefined. Devices
 * with the same room are taken in the order given.
 *
 * @example
 * const rooms = [
 *   { id: 'gpu:0', loadLineBytes: 72, freeBytes: 40 },
 *   { id: 'gpu:1', loadLineBytes: 72, freeBytes: 10 },
 * ];
 * place(rooms, { bytes: 8, gpus: 1 }); // ['gpu:1']
 * place(rooms, { bytes: 8, gpus: 1 }, 'balanced'); // ['gpu:0']
 * place(rooms, { bytes: 20, gpus: 2 }); // undefined: both or none
 */
export function place(
  rooms: readonly Room[],
  need: Pick<Need, 'bytes' | 'gpus'>,
  policy: PlacementPolicy = 'best-fit',
): readonly string[] | undefined {
  const { rooms: possible, count } = candidates(rooms, need);
  const fitting = possible.filter(({ freeBytes }) => freeBytes >= need.bytes);
  if (fitting.length < count) return undefined;
  const share = ({ freeBytes, loadLineBytes }: Room) =>
    loadLineBytes === 0 ? 0 : freeBytes / loadLineBytes;
  const chosen = new Set(
    fitting
      .toSorted((a, b) => (policy === 'best-fit' ? a.freeBytes - b.freeBytes : share(b) - share(a)))
      .slice(0, count),
  );
  // Several are named in the order in which the machine counts them.
  return fitting.filter((room) => chosen.has(room)).map(({ id }) => id);
}

/** The host takes the jobs that ask for it; where no GPU takes any, it takes all. */
export function isOnRequest(
  { id }: { readonly id: string },
  all: readonly { readonly id: string; readonly takesJobs: boolean }[],
): boolean {
  return id === 'host' && all.some((other) => other.id !== 'host' && other.takesJobs);
}
