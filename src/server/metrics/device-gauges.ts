import { Gauge, type Registry } from 'prom-client';
import type { Daemon, DeviceView } from '../../jobs/daemon/types.js';
import { isKnown } from '../../units/known.js';
import { risks } from '../../watch/types.js';
import { readable } from '../errors/readable.js';

const labelNames = ['device', 'name', 'provenance'] as const;
/** Not `job`: Prometheus has one of its own, and would call ours `exported_job`. */
const jobLabels = ['job_id', 'name', 'device'] as const;

/** What each figure is taken from; nothing where it is not known, never a made-up 0. */
const figures: Readonly<
  Record<string, { help: string; of: (device: DeviceView) => number | string | undefined }>
> = {
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
  out_of_memory_seconds: {
    help: 'Expected time until the memory is full (estimated); absent where none is expected.',
    of: (one) => one.forecast.etaSeconds,
  },
  risk: {
    help: 'Risk of running out of memory: 0 none, 1 low, 2 medium, 3 high, 4 critical (estimated).',
    of: ({ forecast: { risk } }) => (isKnown(risk) ? risks.indexOf(risk) : undefined),
  },
};

/** Figures of devices, and of the jobs on them, as they are when somebody looks. */
export function deviceGauges(daemon: Daemon, registry: Registry): () => void {
  const registers = [registry];
  const gauges = Object.entries(figures).map(([name, { help, of }]) => ({
    gauge: new Gauge({ name: `plimsoll_device_${name}`, help, labelNames, registers }),
    of,
  }));
  const reserved = new Gauge({
    name: 'plimsoll_job_reserved_bytes',
    help: 'Reserved by a job that runs, on one of its devices.',
    labelNames: jobLabels,
    registers,
  });
  const used = new Gauge({
    name: 'plimsoll_job_used_bytes',
    help: 'What a job that runs holds of one of its devices.',
    labelNames: jobLabels,
    registers,
  });
  return () => {
    for (const gauge of [...gauges.map((one) => one.gauge), reserved, used]) gauge.reset();
    for (const device of daemon.devices()) {
      const labels = { device: device.id, name: device.name, provenance: device.provenance };
      for (const { gauge, of } of gauges) {
        const value = of(device);
        if (typeof value === 'number') gauge.set(labels, value);
      }
      for (const { jobId, name, bytes, usedBytes, isReleasing } of device.reservations) {
        if (isReleasing) continue;
        const ofJob = { job_id: jobId, name: readable(name), device: device.id };
        reserved.set(ofJob, bytes);
        if (isKnown(usedBytes)) used.set(ofJob, usedBytes);
      }
    }
  };
}
