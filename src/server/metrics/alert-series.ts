import { type Alert, type AlertKind, alertKinds } from '../../watch/types.js';

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
