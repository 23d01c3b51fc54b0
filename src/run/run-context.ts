import type { Clock } from '../time/clock.js';
import type { Libc } from './launch/libc.js';
import type { OutputPlan, RawOutput } from './launch/outputs.js';
import type { SignalSource } from './launch/signal-relay.js';
import type { Patience } from './processes/end-tree.js';
import type { Orphans } from './processes/orphans.js';
import type { HeldOnDevice } from './run-device.js';
import type { AttemptSnapshot } from './types.js';

/** What a run may touch of the machine; the command and tests hand it in. */
export interface RunContext {
  readonly clock: Clock;
  readonly home: string;
  readonly version: string;
  readonly platform: NodeJS.Platform;
  readonly procRoot: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signals: SignalSource;
  /** Undefined where it could not be loaded; `libcMissing` says why. */
  readonly libc: Libc | undefined;
  readonly libcMissing: string | undefined;
  /** Processes of the program that have lost their parents. */
  readonly orphans: Orphans;
  readonly outputs: {
    readonly plan: readonly OutputPlan[];
    readonly stdout: RawOutput;
    readonly stderr: RawOutput;
  };
  /** The folder that holds the Python package. */
  readonly pythonFolder: string;
  /** Adds what a snapshot of memory tells; it answers for every file, readable or not. */
  readonly explain: (snapshot: AttemptSnapshot) => Promise<AttemptSnapshot>;
  /** For people, on stderr, only when something happens that they must know. */
  readonly notify: (line: string) => void;
  /** What these processes hold on the device of the run; undefined where it is not known. */
  readonly readDevice: (pids: readonly number[]) => Promise<HeldOnDevice | undefined>;
  readonly patience: Patience;
}
