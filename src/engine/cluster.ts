import { type GpuEntry, gpusNamed } from '../estimate/cards/gpus.js';
import type { EnvironmentChange } from '../plan/environment/job-environment.js';
import type { Known } from '../units/known.js';

/** The state of a cluster's job; `unknown` if the cluster no longer knows the job. */
export const clusterStates = [
  'waiting',
  'running',
  'succeeded',
  'failed',
  'cancelled',
  'unknown',
] as const;
export type ClusterState = (typeof clusterStates)[number];

export function hasClusterEnded(state: ClusterState): boolean {
  return state !== 'waiting' && state !== 'running';
}

/** The job to run. */
export interface ClusterOrder {
  readonly name: string;
  /** With placeholders, as it was typed. */
  readonly command: readonly string[];
  readonly cwd: string;
  /** GPUs needed together on one node; 0 is the host's memory. */
  readonly gpus: number;
  /** On each GPU, or of the host's memory. */
  readonly needBytes: Known<number>;
  readonly basis: string;
  readonly estimatedBytes: Known<number>;
  /** The same for jobs that should need the same memory. */
  readonly workloadKey: string;
  readonly batch: Known<number>;
  /** How often it is submitted at most, each time with a larger request. */
  readonly maxAttempts: number;
  /** In the words of the cluster's own command. */
  readonly options: readonly string[];
  /** Variables that the job gets otherwise than they were set where it was submitted. */
  readonly environmentChanges?: readonly EnvironmentChange[] | undefined;
}

/** One submission of a job: the first, or one with a larger request after it ran out of memory. */
export interface ClusterAttempt {
  readonly number: number;
  /** The cluster's own name for it. */
  readonly clusterId: Known<string>;
  /** The request in the words of the cluster. */
  readonly request: string;
  readonly reservedBytes: Known<number>;
  readonly peakBytes: Known<number>;
  readonly outOfMemory: boolean;
  readonly exitCode: Known<number>;
}

/** A job as its engine knows it. */
export interface ClusterJob {
  readonly engine: string;
  /** As the person names it: the cluster's name of its first attempt. */
  readonly id: string;
  readonly name: string;
  readonly command: readonly string[];
  readonly state: ClusterState;
  /** Why it waits, or how it ended, in the cluster's word and in ours. */
  readonly why: string;
  readonly gpus: number;
  readonly needBytes: Known<number>;
  readonly basis: string;
  readonly nodes: string;
  readonly submittedAt: string;
  readonly attempts: readonly ClusterAttempt[];
  /** Assumptions of the request. */
  readonly notes: readonly string[];
  /** Of an array: how many of its tasks stand where. */
  readonly tasks: Readonly<Partial<Record<ClusterState, number>>> | null;
}

/** A device of a cluster: `n1/gpu:0`. */
export interface ClusterDevice {
  readonly name: string;
  readonly type: string;
  readonly capacityBytes: Known<number>;
}

/** Memory that a run is given on a device. */
interface ClusterUse {
  readonly jobId: string;
  readonly device: string;
  readonly reservedBytes: Known<number>;
}

/** A cluster with its own scheduler that runs jobs. */
export interface ClusterEngine {
  readonly name: string;
  /** Its scheduler places jobs; we say what they need. */
  readonly placesJobs: boolean;
  /** The mechanism that enforces a job's limit on a GPU and on the host. */
  readonly enforces: { readonly gpu: string; readonly host: string };
  /** Those that a job with these options of the cluster's own command can have. */
  devices(options?: readonly string[]): Promise<readonly ClusterDevice[]>;
  /** Returns the request for the cluster without submitting it. */
  preview(order: ClusterOrder): Promise<string>;
  submit(order: ClusterOrder): Promise<ClusterJob>;
  /** The newest first. */
  jobs(most: number): Promise<readonly ClusterJob[]>;
  /** A `Failure` where there is no such job. */
  job(id: string): Promise<ClusterJob>;
  /** Reads the output of all attempts of a job from this byte on. */
  log(id: string, from: number): Promise<Buffer>;
  /**
   * All that a job prints, as it comes, until it ended or `signal` aborts. Left out where `log` can be
   * asked again and again for what is new.
   */
  followLog?(id: string, write: (bytes: Buffer) => void, signal: AbortSignal): Promise<void>;
  /** A waiting job never starts, a running one is ended; no attempt follows. */
  cancel(id: string): Promise<ClusterJob>;
  use(): Promise<readonly ClusterUse[]>;
}

/** Known facts about a type of GPU that a cluster names. */
export interface OfferedCard {
  readonly capacityBytes: Known<number>;
  readonly contextBytes: number;
  /** The name may mean cards of several sizes; the smallest is taken. */
  readonly isAmbiguous: boolean;
  /** The word beside the type that says which card it is; undefined where the type says it. */
  readonly feature?: string;
}

/** The card behind a type: what the configuration says of it, else those that the name may mean. */
export function cardOf(
  type: string,
  /** Words that may say what the type leaves open: a100 with the feature a100-80gb. */
  features: readonly string[],
  gpuBytes: Readonly<Record<string, number>>,
  configured: readonly GpuEntry[],
): OfferedCard {
  const named = type === '' ? [] : gpusNamed(type, configured);
  const contextBytes = Math.max(0, ...named.map(({ context }) => context.bytes));
  const feature = type === '' ? features.find((one) => gpuBytes[one] !== undefined) : undefined;
  const said = gpuBytes[feature ?? (type === '' ? 'gpu' : type)];
  if (said !== undefined) {
    return { capacityBytes: said, contextBytes, isAmbiguous: false, ...(feature && { feature }) };
  }
  const featured = features
    .flatMap((one) => {
      const [card, ...others] = gpusNamed(one, configured);
      return card === undefined || others.length > 0 ? [] : [{ card, feature: one }];
    })
    .find(({ card }) => named.length === 0 || named.includes(card));
  const cards = featured === undefined ? named : [featured.card];
  const capacities = cards.map(({ capacityBytes }) => capacityBytes);
  return {
    capacityBytes: cards.length === 0 ? 'unknown' : Math.min(...capacities),
    contextBytes: Math.max(0, ...cards.map(({ context }) => context.bytes)),
    isAmbiguous: new Set(capacities).size > 1,
    ...(featured && { feature: featured.feature }),
  };
}
