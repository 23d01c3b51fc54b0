/** What is asked of Prometheus, by name. Their number does not depend on how many nodes there are. */
export const instantQueryNames = [
  'nodes',
  'devices',
  'earlierDevices',
  'used',
  'loadLine',
  'risk',
  'outOfMemory',
  'leak',
  'processLeaks',
  'jobReserved',
  'jobUsed',
  'jobPeak',
  'ranks',
] as const;
export type InstantQueryName = (typeof instantQueryNames)[number];

export const historyQueryNames = ['totalBytes', 'usedBytes', 'reservedBytes'] as const;
export type HistoryQueryName = (typeof historyQueryNames)[number];

const deviceLabels = 'instance, device';
const jobLabels = 'instance, device, engine, job_id, name';

function job(figure: string): string {
  return `max by (${jobLabels}) (plimsoll_job_${figure})`;
}

/**
 * The expressions of PromQL. Each is a maximum by the labels that are used, so that a target which
 * several servers of Prometheus scrape counts once, and answers stay small.
 */
export function instantQueries(windowSeconds: number): Readonly<Record<InstantQueryName, string>> {
  const window = `[${Math.round(windowSeconds)}s]`;
  const named = (figure: string) => `max by (${deviceLabels}, name, provenance) (${figure})`;
  const device = (figure: string) => `max by (${deviceLabels}) (plimsoll_device_${figure})`;
  return {
    nodes: `max by (instance, node) (last_over_time(plimsoll_node_info${window}))`,
    devices: named('plimsoll_device_total_bytes'),
    // Of those that fell silent within the window, too.
    earlierDevices: named(`last_over_time(plimsoll_device_total_bytes${window})`),
    used: device('used_bytes'),
    loadLine: device('load_line_bytes'),
    risk: device('risk'),
    outOfMemory: device('out_of_memory_seconds'),
    leak: device('leak_bytes_per_second'),
    processLeaks: `max by (${deviceLabels}, pid, process, user, engine, job_id, rank) (plimsoll_process_leak_bytes_per_second)`,
    jobReserved: job('reserved_bytes'),
    jobUsed: job('used_bytes'),
    jobPeak: job('peak_bytes'),
    // Of several processes of a rank the largest: workers of a data loader have its rank, too.
    ranks: `max by (${deviceLabels}, engine, job_id, rank, world_size) (plimsoll_process_used_bytes{rank!=""})`,
  };
}

/** Sums over all GPUs; over all hosts where there is no GPU. */
export const historyQueries: Readonly<Record<HistoryQueryName, string>> = {
  totalBytes: sumOf(deviceLabels, 'plimsoll_device_total_bytes'),
  usedBytes: sumOf(deviceLabels, 'plimsoll_device_used_bytes'),
  reservedBytes: sumOf(jobLabels, 'plimsoll_job_reserved_bytes'),
};

function sumOf(labels: string, figure: string): string {
  const sum = (chosen: string) => `sum(max by (${labels}) (${figure}${chosen}))`;
  return `${sum('{device!="host"}')} or ${sum('')}`;
}
