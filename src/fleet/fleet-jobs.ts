import { groupedBy } from '../units/grouped-by.js';
import { isKnown, type Known } from '../units/known.js';
import type { FleetJob } from './document.js';
import { bytesOf, type DeviceBook, type FleetAnswers, jobKey } from './fleet-devices.js';
import type { Point } from './read-answer.js';
import { byName } from './risk-order.js';

/** Jobs that hold memory or a reservation now, those that reserved most above their peak first. */
export function fleetJobs(answers: FleetAnswers, book: DeviceBook): readonly FleetJob[] {
  const [reserved, used, peak] = [answers.jobReserved, answers.jobUsed, answers.jobPeak].map(
    (points) => new Map(points.map((point) => [jobKey(point), point.value])),
  );
  const places = new Map<string, Point>();
  for (const point of [...answers.jobReserved, ...answers.jobUsed])
    places.set(jobKey(point), point);
  const parts = groupedBy(places.values(), ({ labels }) =>
    [labels['instance'], labels['engine'], labels['job_id'], labels['name']].join('\n'),
  );
  const jobs = [...parts.values()].flatMap((points): FleetJob[] => {
    const [first] = points;
    if (first === undefined) return [];
    const { engine = '', job_id: id = '', name = '' } = first.labels;
    const reservedBytes = sumOf(points, reserved);
    return [
      {
        node: book.nodeOf(first),
        engine,
        id,
        name,
        devices: points.map(({ labels }) => labels['device'] ?? '').toSorted(byName),
        reservedBytes: isKnown(reservedBytes) ? reservedBytes : null,
        usedBytes: sumOf(points, used),
        peakBytes: sumOf(points, peak),
      },
    ];
  });
  return jobs.toSorted(
    (one, other) => wasteOf(other) - wasteOf(one) || byName(one.node, other.node),
  );
}

/** Reserved and never used; 0 where one of both is not known. */
export function wasteOf({ reservedBytes, peakBytes }: FleetJob): number {
  return isKnown(peakBytes) ? Math.max(0, (reservedBytes ?? 0) - peakBytes) : 0;
}

/** Over the devices of a job; unknown where it is unknown on one of them. */
function sumOf(
  points: readonly Point[],
  values: ReadonlyMap<string, number> = new Map(),
): Known<number> {
  let sum = 0;
  for (const point of points) {
    const bytes = bytesOf(values.get(jobKey(point)));
    if (!isKnown(bytes)) return 'unknown';
    sum += bytes;
  }
  return sum;
}
