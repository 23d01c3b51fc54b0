/**
 * Plimsoll as a library: what memory there is, what happens to it, and when it will run out.
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

export {
  type AdaptiveBatches,
  type AdaptiveBatchesOptions,
  adaptiveBatches,
} from './batches/adaptive-batches.js';
export {
  deviceMemoryPercent,
  hostMemoryPercent,
  type MemoryProbe,
} from './batches/memory-percent.js';
export { isOutOfMemoryError } from './batches/out-of-memory-error.js';
export {
  type Microbatch,
  type RecoveringStep,
  type RecoveringStepOptions,
  recoveringStep,
  type StepResult,
} from './batches/recovering-step.js';
export type { SampleSource } from './batches/sample-source.js';
export {
  type DiscoverOptions,
  type Discovery,
  discoverDevices,
  type SimulateOptions,
} from './device/discover.js';
export { selectDevices } from './device/select-devices.js';
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
} from './device/types.js';
export { type LocalEngineOptions, localEngine } from './engine/local/local-engine.js';
export type { Engine, EngineRun, RunNews, RunOrder, RunUse } from './engine/types.js';
export {
  type Gpu,
  type GpuContext,
  type GpuVendor,
  knownGpus,
} from './estimate/cards/gpu-table.js';
export { findGpu, type GpuEntry } from './estimate/cards/gpus.js';
export {
  type EstimateMachine,
  type EstimateMethod,
  type EstimateRequest,
  estimate,
} from './estimate/estimate.js';
export type { ModelSource } from './estimate/model-source.js';
export type { ModelSize, ModelType } from './estimate/model-types.js';
export { findSavings, type SavingsBasis } from './estimate/savings.js';
export {
  type Estimate,
  type ModuleBytes,
  type Optimizer,
  optimizers,
  type Part,
  type PartBytes,
  type Precision,
  parts,
  precisions,
  type QuantizationPreset,
  quantizationPresets,
  type Saving,
  type Workload,
} from './estimate/types.js';
export type { EstimateSetting, Wording } from './estimate/wording.js';
export { Failure, type FailureKind } from './failure.js';
export { homeFolder } from './files/home-folder.js';
export { type Admission, admit, type QueueSettings, type QueueState } from './jobs/admission.js';
export { inOrder } from './jobs/admission-order.js';
export {
  type Correction,
  correctEstimate,
  expectedSeconds,
  type MeasuredRun,
  measuredRun,
} from './jobs/corrections.js';
export { openDaemon } from './jobs/daemon/open-daemon.js';
export type { DaemonOptions } from './jobs/daemon/options.js';
export { environmentForJobs } from './jobs/daemon/running/inherited-environment.js';
export type {
  Daemon,
  DaemonEvent,
  DeviceHistory,
  DeviceView,
  JobHistory,
  JobRequest,
  JobSummary,
  JobView,
  WorkersStatus,
} from './jobs/daemon/types.js';
export {
  changeableSettingsOf,
  type Degraded,
  type DegradedSettings,
  degradedBy,
} from './jobs/degraded.js';
export { type FitVerdict, judgeFit, largestOffer } from './jobs/fit-verdict.js';
export type { Hold } from './jobs/hold.js';
export { type JobVariables, readJobVariables } from './jobs/job-variables.js';
export {
  type DeviceRoom,
  Ledger,
  type LedgerDevice,
  type LedgerEntry,
  type LedgerReading,
} from './jobs/ledger.js';
export { defaultLoadLine, type LoadLineSettings, loadLineBytes } from './jobs/load-line.js';
export { type PlacementPolicy, place, placementPolicies, type Room } from './jobs/placement.js';
export { type JobStore, openJobStore } from './jobs/store/job-store.js';
export type {
  Ending,
  JobDetails,
  JobEvent,
  JobEventType,
  JobFilter,
  JobStart,
  NeedEvidence,
  NewJob,
  StoredJob,
} from './jobs/store/records.js';
export {
  type Basis,
  type Job,
  type JobState,
  jobStates,
  type Need,
  type Reservation,
  type RunningJob,
  type WaitingJob,
} from './jobs/types.js';
export { turnOf, WaitingList } from './jobs/waiting-list.js';
export { explainWaiting, type WaitingReason } from './jobs/waiting-reasons.js';
export { type WorkloadIdentity, workloadKey } from './jobs/workload-key.js';
export { readModel } from './model/read-model.js';
export type {
  KnownModel,
  Model,
  ModelDescription,
  UnknownModel,
  Weights,
} from './model/types.js';
export { checkEnvironment } from './plan/environment/check.js';
export { dotenvLines, shellLines } from './plan/environment/formats.js';
export { environmentSettings } from './plan/environment/recommend.js';
export {
  type EnvironmentContext,
  type EnvironmentFinding,
  type EnvironmentMode,
  type EnvironmentSetting,
  environmentModes,
  type FindingKind,
  type MemoryBudget,
} from './plan/environment/types.js';
export { bytesToReserve, fitOf, sureBytes } from './plan/fit/fit.js';
export { planMaxBatch } from './plan/fit/plan-max-batch.js';
export { planSettings } from './plan/fit/plan-settings.js';
export type {
  Concession,
  Offload,
  Plan,
  PlanEstimators,
  PlanFacts,
  PlanOption,
  PlanSettings,
  PlanWishes,
  PlanWording,
  ZeroStage,
} from './plan/fit/types.js';
export {
  asPython,
  bitsAndBytesArguments,
  type ComputeDtype,
  type FromPretrainedArguments,
  type QuantizationMemory,
} from './plan/quantization/bits-and-bytes.js';
export type { ChooseOptions, PresetChoice, PresetOption } from './plan/quantization/choice.js';
export { choosePreset } from './plan/quantization/choose.js';
export type { ModelWeights } from './plan/quantization/preset-bytes.js';
export { type PresetFacts, presetFacts, type TrainingWay } from './plan/quantization/presets.js';
export { loadQuantization, saveQuantization } from './plan/quantization/quantization-file.js';
export type { SavedQuantization } from './plan/quantization/saved-quantization.js';
export { recogniseLine } from './run/recognise/recognise.js';
export { createScanner, type Finding, type Scanner } from './run/recognise/scanner.js';
export type {
  Attempt,
  ClimbedRung,
  EnforcedLimit,
  Outcome,
  OutOfMemory,
  Rung,
  RunReport,
  RunSettings,
} from './run/types.js';
export {
  type AnalyseOptions,
  analyseSnapshot,
  type SnapshotAnalysis,
} from './snapshot/analyse.js';
export { snapshotDocument } from './snapshot/document.js';
export { parseSnapshot, readSnapshot } from './snapshot/read-snapshot.js';
export type { DeviceSnapshot, Frame, Segment, Snapshot } from './snapshot/snapshot.js';
export { type Clock, systemClock } from './time/clock.js';
export { createVirtualClock, type VirtualClock } from './time/virtual-clock.js';
export { formatBytes, parseBytes } from './units/bytes.js';
export { formatSeconds, parseSeconds } from './units/durations.js';
export { isKnown, type Known, type Provenance } from './units/known.js';
export {
  type AlertThresholds,
  defaultThresholds,
  type ThresholdSettings,
} from './watch/alerts/alert-thresholds.js';
export { type AlertSink, deliverToCallback } from './watch/delivery/deliver.js';
export { type CommandDeliveryOptions, deliverToCommand } from './watch/delivery/deliver-command.js';
export { alertLine, deliverToLog } from './watch/delivery/deliver-log.js';
export { deliverToWebhook, type WebhookDeliveryOptions } from './watch/delivery/deliver-webhook.js';
export { createDiagnosis, type Diagnosis } from './watch/diagnosis/diagnose.js';
export { createForecaster, type Forecaster } from './watch/diagnosis/forecast.js';
export { createHistory } from './watch/history/history.js';
export { defaultIntervals, type Intervals } from './watch/sampling/intervals.js';
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
} from './watch/types.js';
export { type Watch, type WatchOptions, watch } from './watch/watch.js';
