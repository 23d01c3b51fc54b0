import type { Known } from '../units/known.js';
import type { Risk } from '../watch/types.js';

/** A device of a node, as its exporter described it last. */
export interface FleetDevice {
  /** `gpu:0`, unique on its node. */
  readonly id: string;
  readonly name: string;
  readonly provenance: Known<'measured' | 'simulated'>;
  /** It was described within the window, and is not now: its node does not answer, or lost it. */
  readonly silent: boolean;
  readonly totalBytes: Known<number>;
  readonly usedBytes: Known<number>;
  readonly loadLineBytes: Known<number>;
  /** Reserved by jobs that hold memory there. */
  readonly reservedBytes: number;
  /** Reserved by jobs that do not use it now; unknown where the use of a job is. */
  readonly unusedBytes: Known<number>;
  readonly risk: Known<Risk>;
  /** When it is expected to be full; null where that is not expected, or not known. */
  readonly etaSeconds: number | null;
  /** How fast a leak grows; null where none was found. */
  readonly leakBytesPerSecond: number | null;
}

export interface FleetNode {
  /** As its exporter calls it, else the target of Prometheus without its port; unique. */
  readonly name: string;
  /** All of its devices are silent. */
  readonly silent: boolean;
  /** The one with the greatest risk first. */
  readonly devices: readonly FleetDevice[];
}

/** A job, on one node. */
export interface FleetJob {
  readonly node: string;
  /** `slurm`, `ray`, ...; empty for jobs of a server of ours. */
  readonly engine: string;
  readonly id: string;
  readonly name: string;
  readonly devices: readonly string[];
  /** Null where nothing was reserved for it. */
  readonly reservedBytes: number | null;
  readonly usedBytes: Known<number>;
  /** The most that was seen. */
  readonly peakBytes: Known<number>;
}

/** A leak that an exporter found. */
export interface FleetLeak {
  readonly node: string;
  readonly device: string;
  readonly bytesPerSecond: number;
  readonly etaSeconds: number | null;
  /** Which process grows; null where that could not be told. */
  readonly process: { readonly pid: string; readonly name: string; readonly user: string } | null;
}

/** One process of a distributed training. */
export interface FleetRank {
  readonly rank: number;
  readonly node: string;
  readonly device: string;
  readonly usedBytes: number;
  /** Free on its device, for it and its neighbours there. */
  readonly freeBytes: Known<number>;
  readonly risk: Known<Risk>;
  readonly etaSeconds: number | null;
  readonly leakBytesPerSecond: number | null;
}

/** A distributed training: its ranks on all nodes, as one. */
export interface FleetTraining {
  readonly engine: string;
  readonly id: string;
  readonly name: string;
  /** How many ranks it says it has. */
  readonly worldSize: Known<number>;
  /** By rank. */
  readonly ranks: readonly FleetRank[];
  /** The rank with the least free memory. */
  readonly tightest: Known<number>;
  /** Most used by a rank, less the least used by one. */
  readonly spreadBytes: number;
  /** Ranks that leak: the process itself, or its device where processes are not told apart. */
  readonly leaking: readonly number[];
  /** Ranks that no exporter saw. */
  readonly missing: Known<number>;
  /** Warnings for the owner; empty if there are none. */
  readonly warnings: readonly string[];
}

/** Sums over the fleet, over time. */
export interface FleetHistory {
  readonly epochMs: readonly number[];
  readonly totalBytes: readonly (number | null)[];
  readonly usedBytes: readonly (number | null)[];
  readonly reservedBytes: readonly (number | null)[];
}

export interface FleetTotals {
  readonly nodes: number;
  readonly silentNodes: number;
  /** The devices of the sums: GPUs, or hosts if the fleet has no GPU. */
  readonly of: 'gpu' | 'host';
  readonly devices: number;
  /** Devices of them that have no real memory behind them. */
  readonly simulated: number;
  /** Sums of what is known. */
  readonly totalBytes: number;
  readonly usedBytes: number;
  readonly reservedBytes: number;
  readonly unusedBytes: number;
  /** Devices with a high or critical risk. */
  readonly atRisk: number;
  readonly leaking: number;
  readonly jobs: number;
  readonly trainings: number;
}

/** All nodes at one moment. */
export interface Fleet {
  readonly epochMs: number;
  readonly windowSeconds: number;
  readonly totals: FleetTotals;
  /** The one with the greatest risk first. */
  readonly nodes: readonly FleetNode[];
  readonly leaks: readonly FleetLeak[];
  /** Those that reserved most above their peak first. */
  readonly wasteful: readonly FleetJob[];
  readonly trainings: readonly FleetTraining[];
  readonly history: FleetHistory;
}
