import { GiB, MiB } from '../units/bytes.js';
import type { FleetAnswers, InstantQueryName } from './fleet-devices.js';
import type { Point } from './read-answer.js';

/** A line that an exporter would answer. */
export interface MadeMetric {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const cards = [
  { name: 'NVIDIA H100 80GB HBM3', bytes: 80 * GiB },
  { name: 'NVIDIA A100-SXM4-40GB', bytes: 40 * GiB },
];
/** Nodes that one distributed training runs on. */
const nodesOfTraining = 4;

/**
 * What the exporter of one node says at a time: the same for the same number. Each 50th node is about
 * to be full, each 40th leaks, each 10th takes part in a distributed training.
 */
export function madeNode(node: number, gpus: number, seconds = 0): readonly MadeMetric[] {
  const card = cards[node % cards.length];
  if (card === undefined) return [];
  const found: MadeMetric[] = [metric('node_info', { node: nodeName(node), version: '0' }, 1)];
  for (let gpu = 0; gpu < gpus; gpu++) {
    const device = `gpu:${gpu}`;
    const of = { device, name: card.name, provenance: 'simulated' };
    const share = ((node * 7 + gpu * 13) % 80) / 100;
    const isFilling = node % 50 === 3 && gpu === 1;
    const leaks = node % 40 === 5 && gpu === 2;
    const peak = Math.round((isFilling ? 0.97 : share) * card.bytes);
    const used = Math.round(peak * (1 - ((seconds + gpu) % 8) / 100));
    const reserved = Math.min(Math.round(0.9 * card.bytes), Math.round(peak * 1.4));
    const job = { engine: 'slurm', job_id: String(node * 100 + gpu), name: `train-${gpu}`, device };
    const training = trainingOf(node);
    found.push(
      metric('device_total_bytes', of, card.bytes),
      metric('device_used_bytes', of, used),
      metric('device_load_line_bytes', of, Math.round(0.9 * card.bytes)),
      metric('device_risk', of, isFilling ? 4 : leaks ? 2 : 0),
      ...(isFilling ? [metric('device_out_of_memory_seconds', of, 9)] : []),
      ...(leaks ? [metric('device_leak_bytes_per_second', of, 3 * MiB)] : []),
      ...(training === undefined
        ? [
            metric('job_used_bytes', job, used),
            metric('job_peak_bytes', job, peak),
            metric('job_reserved_bytes', job, reserved),
          ]
        : [
            metric('job_used_bytes', { ...job, job_id: training, name: 'pretrain' }, used),
            metric(
              'process_used_bytes',
              {
                device,
                pid: String(1000 + gpu),
                process: 'python',
                user: 'ada',
                engine: 'slurm',
                job_id: training,
                rank: String(Math.floor((node / 10) % nodesOfTraining) * gpus + gpu),
                world_size: String(nodesOfTraining * gpus),
              },
              used,
            ),
          ]),
    );
  }
  return found;
}

export function nodeName(node: number): string {
  return `n${String(node).padStart(4, '0')}`;
}

/** Nodes 0, 10, 20 and 30 run one, the next four the next one. */
function trainingOf(node: number): string | undefined {
  return node % 10 === 0 ? `t${Math.floor(node / 10 / nodesOfTraining)}` : undefined;
}

function metric(name: string, labels: Readonly<Record<string, string>>, value: number): MadeMetric {
  return { name: `plimsoll_${name}`, labels, value };
}

/** As a scrape has it. */
export function expositionText(metrics: readonly MadeMetric[]): string {
  return metrics
    .map(({ name, labels, value }) => {
      const list = Object.entries(labels).map(([key, text]) => `${key}="${text}"`);
      return `${name}{${list.join(',')}} ${value}\n`;
    })
    .join('');
}

const metricOf: Readonly<Record<InstantQueryName, string>> = {
  nodes: 'node_info',
  devices: 'device_total_bytes',
  earlierDevices: 'device_total_bytes',
  used: 'device_used_bytes',
  loadLine: 'device_load_line_bytes',
  risk: 'device_risk',
  outOfMemory: 'device_out_of_memory_seconds',
  leak: 'device_leak_bytes_per_second',
  processLeaks: 'process_leak_bytes_per_second',
  jobReserved: 'job_reserved_bytes',
  jobUsed: 'job_used_bytes',
  jobPeak: 'job_peak_bytes',
  ranks: 'process_used_bytes',
};

/** Returns the answers of Prometheus after a scrape of such nodes. */
export function madeAnswers(nodes: number, gpus: number): FleetAnswers {
  return answersOf(
    new Map(
      Array.from({ length: nodes }, (_, node) => [`${nodeName(node)}:9847`, madeNode(node, gpus)]),
    ),
  );
}

/** The answers to all queries, from the metrics of each target. */
export function answersOf(
  targets: ReadonlyMap<string, readonly MadeMetric[]>,
): Record<InstantQueryName, readonly Point[]> {
  const byName = new Map<string, Point[]>();
  for (const [instance, metrics] of targets) {
    for (const { name, labels, value } of metrics) {
      const list = byName.get(name) ?? [];
      list.push({ labels: { ...labels, instance }, value });
      byName.set(name, list);
    }
  }
  const of = (query: InstantQueryName) => byName.get(`plimsoll_${metricOf[query]}`) ?? [];
  return {
    nodes: of('nodes'),
    devices: of('devices'),
    earlierDevices: of('earlierDevices'),
    used: of('used'),
    loadLine: of('loadLine'),
    risk: of('risk'),
    outOfMemory: of('outOfMemory'),
    leak: of('leak'),
    processLeaks: of('processLeaks'),
    jobReserved: of('jobReserved'),
    jobUsed: of('jobUsed'),
    jobPeak: of('jobPeak'),
    ranks: of('ranks'),
  };
}
