import type { EnvironmentChange } from '../plan/environment/job-environment.js';
import type { Known, Provenance } from '../units/known.js';

/** What a program can be told; the keys are the placeholders of its command. */
export interface RunSettings {
  readonly batch_size: Known<number>;
  /** Microbatches that make up one batch. */
  readonly accumulation: number;
  readonly checkpointing: boolean;
  readonly precision: string;
  readonly offload: boolean;
  /** `gpu:0`, or `host`. */
  readonly device: string;
  /** That GPU is not there: a scenario or a recorded trace stands for it. */
  readonly simulated_device?: boolean;
  /** Since memory ran out in pieces: PyTorch's segments grow in place. */
  readonly expandable_segments?: boolean;
  /** Since memory ran out: the SDK spills from the first step on, and keeps so many bytes free. */
  readonly spill_headroom_bytes?: number;
}

/** Whether memory of a PyTorch program may give way: when it is short, never, from the first step on. */
export const spillModes = ['auto', 'off', 'always'] as const;
export type SpillMode = (typeof spillModes)[number];

/** One recovery step, in the order in which the ladder is climbed. */
export const rungs = [
  'give-back-cache',
  'spill',
  'smaller-microbatch',
  'checkpointing',
  'lower-precision',
  'cpu-offload',
  'restart-from-checkpoint',
  'host',
] as const;
export type Rung = (typeof rungs)[number];

/** A rung that was climbed, and why, in words for people. */
export interface ClimbedRung {
  readonly rung: Rung | 'grow-back';
  readonly why: string;
  /** Counted from the start of the attempt. */
  readonly atSeconds: number;
}

/** What is known of memory that ran out. Bytes that were not told are `unknown`. */
export interface OutOfMemory {
  /** Who ran out: `cuda`, `cublas`, `pytorch-cpu`, `node`, `killed-at-limit`, ... */
  readonly kind: string;
  readonly askedBytes: Known<number>;
  readonly freeBytes: Known<number>;
  readonly totalBytes: Known<number>;
  readonly message: string;
}

/** What a training step of so many samples takes at most, measured in a program that had run out of memory. */
export interface MeasuredSize {
  readonly microbatch: number;
  readonly peakBytes: number;
}

/** How a peak was measured; where nothing could, `unknown`. */
export type PeakSource = 'sdk' | 'nvml' | 'cgroup' | 'process' | 'unknown';

/** One try of a command. */
export interface Attempt {
  readonly number: number;
  readonly settings: RunSettings;
  readonly command: readonly string[];
  readonly startedAt: string;
  readonly endedAt: string;
  /** 128 and its number where a signal ended it; `unknown` where the end was not seen. */
  readonly exitCode: Known<number>;
  readonly outOfMemory: OutOfMemory | null;
  readonly rungs: readonly ClimbedRung[];
  readonly peakBytes: Known<number>;
  readonly source: Provenance;
  readonly peakFrom: PeakSource;
  readonly limit: EnforcedLimit;
  /** What the SDK wrote when memory ran out, and what it tells. */
  readonly snapshot: AttemptSnapshot | null;
  /** Of an attempt that ran out of memory: what it held over time, thinned; peaks are kept. */
  readonly memory?: readonly MemoryPoint[];
  /** Of the same: its largest processes when memory ran out. */
  readonly holders?: MemoryHolders;
  /** Of the same: the end of what it printed. */
  readonly lastLines?: readonly string[];
  /** Of the same, where the process could tell before it ended: what smaller batches take. */
  readonly measuredSizes?: readonly MeasuredSize[];
  /** Of a program that tells of its steps: some of them, from its start to its end. */
  readonly progress?: readonly ProgressPoint[];
  /** Of a program with buffer stores of the SDK: all of them together, as last reported. */
  readonly buffers?: AttemptBuffers;
  /** Of a program whose memory gave way: all of its processes together; measured. */
  readonly spill?: AttemptSpill;
  /** Such as `srun`: they ran the work outside of the processes that were measured. */
  readonly launchers?: readonly string[];
}

/** What the buffer stores of a program did and hold; measured. */
export interface AttemptBuffers {
  readonly items: number;
  readonly hits: number;
  readonly misses: number;
  readonly evictions: number;
  readonly memoryBytes: number;
  readonly fileBytes: number;
  /** What the items would take without compression. */
  readonly rawBytes: number;
  readonly hitRate: Known<number>;
  readonly compressionRatio: Known<number>;
}

/** What the SDK moved to the host and back, and computed again, to stay within a limit. */
export interface AttemptSpill {
  readonly bytesOut: number;
  readonly bytesBack: number;
  readonly recomputedSeconds: number;
  /** How long steps waited for the copies. */
  readonly stallSeconds: number;
  /** Why it left the program alone, where it did. */
  readonly aside?: string;
}

/** What an attempt held at a time, measured from outside. */
export interface MemoryPoint {
  /** Counted from the start of the attempt. */
  readonly atSeconds: number;
  readonly bytes: number;
}

/** The largest processes of an attempt at the reading with the most memory shortly before its end. */
export interface MemoryHolders {
  /** Counted from the start of the attempt. */
  readonly atSeconds: number;
  /** Of all its processes, also those that are not named. */
  readonly totalBytes: number;
  /** What programs outside of the run held of the same GPU; `unknown` on the host. */
  readonly othersBytes: Known<number>;
  /** Largest first. */
  readonly processes: readonly MemoryHolder[];
}

/** On the host its pages in RAM, those that it shares in full; on a GPU what the driver says. */
export interface MemoryHolder {
  readonly pid: number;
  readonly command: Known<string>;
  readonly bytes: number;
}

/** Where a program was at a time, as its steps told. */
export interface ProgressPoint {
  /** Counted from the start of the attempt. */
  readonly atSeconds: number;
  readonly step: number;
  /** Left out in what was kept before it was counted. */
  readonly stepsPerSecond?: Known<number>;
  /** Of a loop that does not tell its batch: by the batch that it was told to take. */
  readonly samplesPerSecond: Known<number>;
  /** Of the last step that was made; what trainers report. */
  readonly loss: Known<number>;
  readonly microbatch: Known<number>;
  readonly peakBytes: Known<number>;
}

export interface AttemptSnapshot {
  readonly file: string;
  /** In words; none while the file was not read. */
  readonly findings: readonly string[];
}

/** The memory limit that was enforced, and why not a better one. */
export interface EnforcedLimit {
  readonly bytes: Known<number> | 'none';
  readonly by: 'cgroup-v1' | 'cgroup-v2' | 'address-space' | 'sdk' | 'none';
  readonly why: string;
}

export const outcomes = ['succeeded', 'failed', 'interrupted'] as const;
export type Outcome = (typeof outcomes)[number];

/** The report of `plimsoll run`; `schema` rises when a field changes its meaning. */
export interface RunReport {
  readonly schema: 1;
  readonly tool: { readonly name: 'plimsoll'; readonly version: string };
  readonly id: string;
  /** As it was given, placeholders and all. */
  readonly command: readonly string[];
  readonly outcome: Outcome;
  readonly exitCode: Known<number>;
  readonly startedAt: string;
  readonly endedAt: string;
  readonly attempts: readonly Attempt[];
  /** Variables that the program got otherwise than the person had them; left out where none are. */
  readonly environmentChanges?: readonly EnvironmentChange[];
  /** What a reader should know besides: a limit that could not be set, a supervisor that died. */
  readonly notes: readonly string[];
  /** After a failure for memory: the command that changes the options of this one by itself. */
  readonly tryNext?: string;
}

/** The Unix account that a program runs as, where its supervisor is root. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
  /** Unknown where the machine has no name for the uid; then it has no other groups either. */
  readonly name?: string | undefined;
  readonly home?: string | undefined;
  readonly shell?: string | undefined;
}
