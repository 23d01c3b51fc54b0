import type { LimitOrder } from '../run/bridge/spilling.js';
import type { JournalEntry, LimitedEntry, StartedEntry } from '../run/store/journal-entry.js';
import type { RunPlan } from '../run/store/run-plan.js';
import type { ClimbedRung, ProgressPoint } from '../run/types.js';

/** What shall run. The same order again finds the run that is there: none is begun twice. */
export type RunOrder = Omit<RunPlan, 'bridge'> & {
  /** What the program prints is added to this file. */
  readonly log: string;
};

/** What happens to a run. A daemon that takes it up again hears all of it again, from the beginning. */
export type RunNews =
  | StartedEntry
  | { readonly type: 'climbed'; readonly number: number; readonly rung: ClimbedRung }
  /** Another limit was asked for; this one is in force since. */
  | LimitedEntry
  /** It was asked to end. */
  | { readonly type: 'stopped'; readonly signal: string }
  | Extract<JournalEntry, { type: 'ended' }>
  | Extract<JournalEntry, { type: 'finished' }>
  /** It has no supervisor and none can be started: it is over, and what was left of it is ended. */
  | { readonly type: 'lost'; readonly why: string };

/** A run that an engine looks after. */
export interface EngineRun {
  /** Asks the program to end; one that does not is killed after a while. */
  stop(): void;
  /** Asks the program to keep another limit; what came of it is told as `limited`. */
  limit(bytes: number): void;
  /** The limit that was asked for last, also by an engine before this one. */
  limitAsked(): LimitOrder | undefined;
  /** What an attempt that goes on has told of its steps. */
  progress(number: number): readonly ProgressPoint[];
  /** Looks no longer; the run itself goes on. */
  release(): void;
}

/** Who holds which memory, at one moment. */
export interface RunUse {
  /** Whether the process is seen at all: a driver may name it by the number of another namespace. */
  knows(pid: number): boolean;
  /** The run that a process belongs to; undefined where it belongs to none. */
  runOf(pid: number): string | undefined;
  /** Of the host's memory. */
  hostBytes(runId: string): number;
}

/** Where runs happen: this machine, a cluster. It knows nothing of jobs and queues. */
export interface Engine {
  /** Begins a run, or takes up one that was begun; tells what happens to it until it is over. */
  openRun(order: RunOrder, onNews: (news: RunNews) => void): EngineRun;
  /** Looks at all processes once. */
  use(): RunUse;
  /** Removes what is kept of a run that is over. */
  forget(runId: string): void;
  /** Releases all of them. */
  close(): void;
}
