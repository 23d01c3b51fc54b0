/**
 * Plimsoll as a library: what memory there is, what happens to it, what a job will need, and how it
 * recovers. This is the core; the rest is in `plimsoll/watch`, `/estimate`, `/plan`, `/run`, `/jobs`,
 * `/snapshot`, `/batches` and `/buffers`.
 *
 * @example
 * import { discoverDevices, watch } from 'plimsoll';
 *
 * const discovery = await discoverDevices();
 * for (const { info } of discovery.devices) console.log(info.id, info.name);
 *
 * for await (const event of watch({ discovery, intervalSeconds: 1, durationSeconds: 60 })) {
 *   if (event.type === 'alert') console.log(event.alert.message);
 *   if (event.type === 'sample') console.log(event.sample.usedBytes, event.state.forecast.risk);
 * }
 * discovery.close();
 *
 * @module
 */

export { type AdaptiveBatchesOptions, adaptiveBatches } from './batches/adaptive-batches.js';
export { type RecoveringStepOptions, recoveringStep } from './batches/recovering-step.js';
export type { BufferStatistics } from './buffers/buffer-store.js';
export { BufferStore } from './buffers/buffer-store.js';
export type { BufferValue } from './buffers/format/value.js';
export type { BufferStoreOptions } from './buffers/options.js';
export { type Discovery, discoverDevices } from './device/discover.js';
export { selectDevices } from './device/select-devices.js';
export type { Device, DeviceInfo } from './device/types.js';
export { answerMachine } from './entries/answer-machine.js';
export { type RunCommandOptions, runCommand } from './entries/run-command.js';
export { findGpu } from './estimate/cards/gpus.js';
export type { Estimate } from './estimate/types.js';
export { Failure, type FailureKind } from './failure.js';
export { homeFolder } from './files/folders.js';
export { readModel } from './model/read-model.js';
export type { Model } from './model/types.js';
export { answerEstimate } from './plan/answers/answer-estimate.js';
export { answerPlan } from './plan/answers/answer-plan.js';
export type { PlanAnswerRequest, WorkloadRequest } from './plan/answers/workload-request.js';
export type { Plan } from './plan/fit/types.js';
export type { RunReport } from './run/types.js';
export { analyseSnapshot, type SnapshotAnalysis } from './snapshot/analyse.js';
export { readSnapshot } from './snapshot/read-snapshot.js';
export { formatBytes, parseBytes } from './units/bytes.js';
export { formatSeconds, parseSeconds } from './units/durations.js';
export { isKnown, type Known, type Provenance } from './units/known.js';
export type { Alert, DeviceState, Forecast, Leak, Sample, WatchEvent } from './watch/types.js';
export { type Watch, type WatchOptions, watch } from './watch/watch.js';
