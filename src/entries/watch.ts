/**
 * Devices, samples, forecast, leaks, alerts, and a clock for tests.
 *
 * @example
 * import { discoverDevices, watch } from 'plimsoll/watch';
 *
 * for await (const event of watch({ durationSeconds: 60 })) console.log(event.type);
 *
 * @module
 */

export {
  type AllocatorReading,
  type Device,
  type DeviceInfo,
  DeviceLost,
  type DeviceProvider,
  type DeviceSource,
  type HostReading,
  type MemoryReading,
  type ProcessReading,
} from '../device/device.js';
export {
  type DiscoverOptions,
  type Discovery,
  discoverDevices,
  type SimulateOptions,
} from '../device/discover.js';
export { type RecordedTrace, readRecordedTrace, type TraceRow } from '../device/recorded-trace.js';
export { selectDevices } from '../device/select-devices.js';
export { type Clock, createVirtualClock, systemClock, type VirtualClock } from '../time/clock.js';
export {
  type AlertThresholds,
  defaultThresholds,
  type ThresholdSettings,
} from '../watch/alerts/alert-thresholds.js';
export {
  type AlertSink,
  alertLine,
  deliverToCallback,
  deliverToLog,
} from '../watch/delivery/deliver.js';
export {
  type CommandDeliveryOptions,
  deliverToCommand,
} from '../watch/delivery/deliver-command.js';
export {
  deliverToWebhook,
  type WebhookDeliveryOptions,
} from '../watch/delivery/deliver-webhook.js';
export { createDiagnosis, type Diagnosis } from '../watch/diagnosis/diagnose.js';
export { createForecaster, type Forecaster } from '../watch/diagnosis/forecast.js';
export { type Alarm, type Replay, replay, replayTrace } from '../watch/diagnosis/replay.js';
export { type GcPauses, watchGcPauses } from '../watch/gc-pauses.js';
export { createHistory } from '../watch/history/history.js';
export { defaultIntervals, type Intervals } from '../watch/sampling/intervals.js';
export {
  type Alert,
  type AlertKind,
  alertKinds,
  type Cause,
  type Column,
  type DeviceState,
  type Forecast,
  type History,
  type Leak,
  type MemoryPoint,
  type Risk,
  risks,
  type Sample,
  type Series,
  type Statistics,
  type Trend,
  type WatchEvent,
} from '../watch/types.js';
export { type Watch, type WatchOptions, watch } from '../watch/watch.js';
