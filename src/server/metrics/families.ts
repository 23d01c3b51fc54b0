import type { DeviceView } from '../../jobs/daemon/types.js';
import { isKnown, type Known } from '../../units/known.js';
import { type Alert, type AlertKind, alertKinds, type Leak, risks } from '../../watch/types.js';
import { readable } from '../errors/error-body.js';

export type AlertSeries = Pick<Alert, 'kind' | 'severity'>;

/** How grave each kind can be. */
const severitiesOf: Readonly<Record<AlertKind, readonly Alert['severity'][]>> = {
  'memory-warning': ['warning'],
  'memory-critical': ['critical'],
  'gpu-warning': ['warning'],
  'gpu-critical': ['critical'],
  leak: ['warning'],
  'out-of-memory-risk': ['warning', 'critical'],
};

/** Every alert that there can be. A counter begins with all of them: a first 1 would be missed. */
export const alertSeries: readonly AlertSeries[] = alertKinds.flatMap((kind) =>
  severitiesOf[kind].map((severity) => ({ kind, severity })),
);

export const alertsTotal = {
  name: 'plimsoll_alerts_total',
  help: 'Alerts that were raised.',
} as const;

/** The figures of a device; a server knows of reservations, an exporter does not. */
export interface DeviceFigures
  extends Pick<
      DeviceView,
      'id' | 'name' | 'provenance' | 'totalBytes' | 'usedBytes' | 'forecast' | 'alerts'
    >,
    Partial<
      Pick<
        DeviceView,
        'reservedBytes' | 'otherProcessesBytes' | 'releasingBytes' | 'availableBytes'
      >
    > {
  readonly loadLineBytes: Known<number>;
  /** False once it vanished: then nothing else is told of it. */
  readonly present?: boolean;
  readonly utilizationPercent?: Known<number>;
  readonly leak?: Leak;
}

interface Figure {
  readonly help: string;
  readonly of: (device: DeviceFigures) => number | string | undefined;
}

/** The source of each figure; absent if not known, never a made-up 0. */
const figures: Readonly<Record<string, Figure>> = {
  total_bytes: { help: 'Capacity of the device.', of: (one) => one.totalBytes },
  used_bytes: { help: 'Memory in use, by all processes.', of: (one) => one.usedBytes },
  load_line_bytes: { help: 'Reservations may fill it up to here.', of: (one) => one.loadLineBytes },
  reserved_bytes: { help: 'Reserved by jobs that run.', of: (one) => one.reservedBytes },
  other_processes_bytes: { help: 'Used by other processes.', of: (one) => one.otherProcessesBytes },
  releasing_bytes: {
    help: 'Reserved by jobs that ended, until the device reports the memory free.',
    of: (one) => one.releasingBytes,
  },
  available_bytes: { help: 'Available to jobs now.', of: (one) => one.availableBytes },
  utilization_percent: { help: 'How busy it is.', of: (one) => one.utilizationPercent },
  out_of_memory_seconds: {
    help: 'Expected time until the memory is full (estimated); absent where none is expected.',
    of: (one) => one.forecast.etaSeconds,
  },
  risk: {
    help: 'Risk of running out of memory: 0 none, 1 low, 2 medium, 3 high, 4 critical (estimated).',
    of: ({ forecast: { risk } }) => (isKnown(risk) ? risks.indexOf(risk) : undefined),
  },
  growth_bytes_per_second: {
    help: 'How fast use grows (estimated).',
    of: (one) => one.forecast.bytesPerSecond,
  },
  leak: {
    help: '1 where memory grows and does not come back (estimated); absent while it is not known.',
    of: ({ leak }) => (typeof leak?.found === 'boolean' ? Number(leak.found) : undefined),
  },
  leak_bytes_per_second: {
    help: 'Rate of a leak (estimated).',
    of: ({ leak }) => (leak?.found === true ? leak.bytesPerSecond : undefined),
  },
};

/** Figures of devices as they are now, and the alerts that are raised on them. */
export function deviceFamilies(devices: readonly DeviceFigures[]): readonly MetricFamily[] {
  const there = devices.filter(({ present }) => present !== false);
  const labelsOf = ({ id, name, provenance }: DeviceFigures) => ({ device: id, name, provenance });
  return [
    {
      name: 'plimsoll_device_present',
      help: '0 once the device vanished.',
      type: 'gauge',
      samples: devices.map((device) => ({
        labels: labelsOf(device),
        value: Number(device.present !== false),
      })),
    },
    ...Object.entries(figures).map(
      ([name, { help, of }]): MetricFamily => ({
        name: `plimsoll_device_${name}`,
        help,
        type: 'gauge',
        samples: there.flatMap((device) => {
          const value = of(device);
          return typeof value === 'number' ? [{ labels: labelsOf(device), value }] : [];
        }),
      }),
    ),
    alertFamily(there),
  ];
}

function alertFamily(devices: readonly DeviceFigures[]): MetricFamily {
  const counts = new Map<string, { labels: Record<string, string>; value: number }>();
  for (const { id, alerts } of devices) {
    for (const { kind, severity } of alerts) {
      const key = `${id} ${kind} ${severity}`;
      const sample = counts.get(key) ?? { labels: { device: id, kind, severity }, value: 0 };
      counts.set(key, { ...sample, value: sample.value + 1 });
    }
  }
  return {
    name: 'plimsoll_alerts',
    help: 'Alerts that are raised now.',
    type: 'gauge',
    samples: [...counts.values()],
  };
}

/** Names the machine: `instance`, which Prometheus adds, may be an address. */
export function nodeFamily(node: string, version: string): MetricFamily {
  return {
    name: 'plimsoll_node_info',
    help: 'The machine, and the version of plimsoll on it.',
    type: 'gauge',
    samples: [{ labels: { node, version }, value: 1 }],
  };
}

/** The figures of one job on one device. */
export interface JobFigures {
  /** Left out for jobs of the server itself. */
  readonly engine?: string | undefined;
  /** Not `job`: Prometheus has a label of its own by that name, and would rename ours. */
  readonly jobId: string;
  readonly name: string;
  readonly device: string;
  readonly reservedBytes: Known<number>;
  readonly usedBytes: Known<number>;
  readonly peakBytes?: Known<number>;
}

/** Figures of jobs that run, on each of their devices. */
export function jobFamilies(jobs: readonly JobFigures[]): readonly MetricFamily[] {
  const family = (
    name: string,
    help: string,
    of: (job: JobFigures) => Known<number> | undefined,
  ): MetricFamily => ({
    name: `plimsoll_job_${name}_bytes`,
    help,
    type: 'gauge',
    samples: jobs.flatMap((job) => {
      const value = of(job) ?? 'unknown';
      const { engine, jobId, name: called, device } = job;
      const labels = { engine, job_id: jobId, name: called, device };
      return isKnown(value) ? [{ labels, value }] : [];
    }),
  });
  return [
    family('reserved', 'Reserved by a job that runs, on one of its devices.', (job) => {
      return job.reservedBytes;
    }),
    family('used', 'What a job that runs holds of one of its devices.', (job) => job.usedBytes),
    family('peak', 'The most that a job that runs was seen to hold.', (job) => job.peakBytes),
  ];
}

/** One figure; a label without a value is left out. */
interface MetricSample {
  readonly labels: Readonly<Record<string, string | undefined>>;
  readonly value: number;
}

/** All figures of one name. */
export interface MetricFamily {
  readonly name: string;
  readonly help: string;
  readonly type: 'gauge' | 'counter';
  readonly samples: readonly MetricSample[];
}

/** A program may call itself anything; a page of metrics is not for stories. */
const longestValue = 200;

/**
 * The text format of Prometheus; a family without figures is left out.
 *
 * @example
 * metricText([{ name: 'up', help: 'It is up.', type: 'gauge', samples: [{ labels: {}, value: 1 }] }]);
 * // '# HELP up It is up.\n# TYPE up gauge\nup 1\n'
 */
export function metricText(families: readonly MetricFamily[]): string {
  return families
    .filter(({ samples }) => samples.length > 0)
    .map(({ name, help, type, samples }) => {
      const lines = samples.map(({ labels, value }) => `${name}${labelText(labels)} ${value}\n`);
      return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`;
    })
    .join('');
}

function labelText(labels: MetricSample['labels']): string {
  let text = '';
  for (const name in labels) {
    const value = labels[name];
    if (value === undefined || value === '') continue;
    text += `${text === '' ? '{' : ','}${name}="${isPlain.test(value) ? value : escaped(value)}"`;
  }
  return text === '' ? '' : `${text}}`;
}

/** Nearly all values need no change, and a page has thousands of them. */
const isPlain = /^[\w.:/ -]{1,200}$/;

function escaped(value: string): string {
  const short = readable(value).slice(0, longestValue);
  return short.replaceAll('\\', '\\\\').replaceAll('"', '\\"');
}
