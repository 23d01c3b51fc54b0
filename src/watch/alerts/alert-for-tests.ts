import type { Alert } from '../types.js';

/** An alert for tests. */
export function fakeAlert(parts: Partial<Alert> = {}): Alert {
  return {
    kind: 'gpu-critical',
    state: 'raised',
    severity: 'critical',
    deviceId: 'gpu:0',
    atSeconds: 12.5,
    epochMs: Date.UTC(2025, 0, 15, 10, 30),
    message: 'gpu:0 (Fake GPU, simulated) uses 96.0 % of its memory.',
    recommendations: ['Lower the batch size.'],
    provenance: 'simulated',
    ...parts,
  };
}
