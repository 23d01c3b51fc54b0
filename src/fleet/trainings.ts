import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { groupedBy } from '../units/grouped-by.js';
import { isKnown, type Known } from '../units/known.js';
import type { FleetRank, FleetTraining } from './document.js';
import { bytesOf, type DeviceBook, type FleetAnswers, keyOf } from './fleet-devices.js';
import type { Point } from './read-answer.js';
import { byName, isAtRisk } from './risk-order.js';

/** Distributed trainings, those with most warnings first. */
export function fleetTrainings(
  { ranks, jobUsed, processLeaks }: FleetAnswers,
  book: DeviceBook,
): readonly FleetTraining[] {
  const names = new Map(jobUsed.map((point) => [trainingKey(point), point.labels['name'] ?? '']));
  const leaks = new Map(processLeaks.map((point) => [rankKey(point), point.value]));
  return [...groupedBy(ranks, trainingKey)]
    .map(([key, points]) => trainingOf(points, names.get(key) ?? '', book, leaks))
    .toSorted(
      (one, other) => other.warnings.length - one.warnings.length || byName(one.id, other.id),
    );
}

function trainingKey({ labels: { engine = '', job_id: id = '' } }: Point): string {
  return `${engine}\n${id}`;
}

function rankKey(point: Point): string {
  return [keyOf(point), trainingKey(point), point.labels['rank'] ?? ''].join('\n');
}

function trainingOf(
  points: readonly Point[],
  name: string,
  book: DeviceBook,
  leaks: ReadonlyMap<string, number>,
): FleetTraining {
  const ranks = onGpus(points)
    .flatMap((point) => rankOf(point, book, leaks.get(rankKey(point))))
    .toSorted((one, other) => one.rank - other.rank || byName(one.device, other.device));
  const worldSize = worldSizeOf(points);
  const used = ranks.map(({ usedBytes }) => usedBytes);
  const seen = new Set(ranks.map(({ rank }) => rank)).size;
  const training = {
    engine: points[0]?.labels['engine'] ?? '',
    id: points[0]?.labels['job_id'] ?? '',
    name,
    worldSize,
    ranks,
    tightest: tightestOf(ranks),
    spreadBytes: used.length === 0 ? 0 : Math.max(...used) - Math.min(...used),
    leaking: ranks.filter((one) => one.leakBytesPerSecond !== null).map(({ rank }) => rank),
    missing: isKnown(worldSize) ? Math.max(0, worldSize - seen) : ('unknown' as const),
  };
  return { ...training, warnings: warningsOf(training) };
}

/** A rank on a GPU holds memory of its host, too; that is another matter. */
function onGpus(points: readonly Point[]): readonly Point[] {
  const gpus = points.filter(({ labels }) => labels['device'] !== 'host');
  return gpus.length > 0 ? gpus : points;
}

function tightestOf(ranks: readonly FleetRank[]): Known<number> {
  const known = ranks.flatMap(({ rank, freeBytes }) =>
    isKnown(freeBytes) ? [{ rank, freeBytes }] : [],
  );
  return known.toSorted((one, other) => one.freeBytes - other.freeBytes)[0]?.rank ?? 'unknown';
}

function rankOf(point: Point, book: DeviceBook, ownLeak: number | undefined): readonly FleetRank[] {
  const rank = wholeNumber(point.labels['rank']);
  const usedBytes = bytesOf(point.value);
  if (!isKnown(rank) || !isKnown(usedBytes)) return [];
  const device = book.find(point);
  return [
    {
      rank,
      node: book.nodeOf(point),
      device: point.labels['device'] ?? '',
      usedBytes,
      freeBytes: freeOf(device?.totalBytes, device?.usedBytes),
      risk: device?.risk ?? 'unknown',
      etaSeconds: device?.etaSeconds ?? null,
      leakBytesPerSecond: ownLeak ?? device?.leakBytesPerSecond ?? null,
    },
  ];
}

/** Returns warnings for the owner: the ranks of a training wait for one another at every step. */
function warningsOf(training: Omit<FleetTraining, 'warnings'>): readonly string[] {
  const { ranks, missing, worldSize } = training;
  const others = (isKnown(worldSize) ? worldSize : ranks.length) - 1;
  const [first] = ranks
    .flatMap((one) =>
      isAtRisk(one) && one.etaSeconds !== null ? [{ ...one, full: one.etaSeconds }] : [],
    )
    .toSorted((one, other) => one.full - other.full);
  const ending =
    first === undefined
      ? []
      : [
          `${placeOf(first)} is expected to run out of memory in ${formatSeconds(first.full)}; ${othersWait(others)}`,
        ];
  const leaks = ranks.flatMap((one) =>
    one.leakBytesPerSecond === null
      ? []
      : [`${placeOf(one)} leaks ${formatBytes(Math.round(one.leakBytesPerSecond * 60))} a minute.`],
  );
  const unseen =
    isKnown(missing) && missing > 0
      ? [`${missing} of ${worldSize} ranks are not seen: they ended, or their nodes do not answer.`]
      : [];
  return [...ending, ...leaks, ...unseen];
}

function placeOf({ rank, node, device }: FleetRank): string {
  return `Rank ${rank} (${node}/${device})`;
}

function othersWait(others: number): string {
  if (others < 1) return 'the training ends with it.';
  return others === 1
    ? 'the other rank will wait for it.'
    : `the other ${others} ranks will wait for it.`;
}

function worldSizeOf(points: readonly Point[]): Known<number> {
  const sizes = points.map(({ labels }) => wholeNumber(labels['world_size'])).filter(isKnown);
  return sizes.length === 0 ? 'unknown' : Math.max(...sizes);
}

function wholeNumber(text: string | undefined): Known<number> {
  return text !== undefined && /^\d{1,7}$/.test(text) ? Number(text) : 'unknown';
}

function freeOf(total: Known<number> = 'unknown', used: Known<number> = 'unknown'): Known<number> {
  return isKnown(total) && isKnown(used) ? Math.max(0, total - used) : 'unknown';
}

/**
 * Those that are meant: by id; by name where none has that id. More than one may have a name.
 *
 * @example
 * findTrainings(fleet.trainings, '4711');
 */
export function findTrainings(
  trainings: readonly FleetTraining[],
  wanted: string,
): readonly FleetTraining[] {
  const byId = trainings.filter(({ id }) => id === wanted);
  return byId.length > 0 ? byId : trainings.filter(({ name }) => name === wanted);
}
