import type { MetricFamily } from '../metrics/metric-text.js';

/** What the exporter itself takes, by the names that every program has in Prometheus. */
export function ownFamilies(startedEpochMs: number): readonly MetricFamily[] {
  const { user, system } = process.cpuUsage();
  return [
    one('cpu_seconds_total', 'Processor time of the exporter.', 'counter', (user + system) / 1e6),
    one(
      'resident_memory_bytes',
      'Resident memory of the exporter.',
      'gauge',
      process.memoryUsage.rss(),
    ),
    one('start_time_seconds', 'When the exporter started.', 'gauge', startedEpochMs / 1000),
  ];
}

function one(name: string, help: string, type: MetricFamily['type'], value: number): MetricFamily {
  return { name: `process_${name}`, help, type, samples: [{ labels: {}, value }] };
}
