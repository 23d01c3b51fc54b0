import { isDiskFull } from '../files/system-errors.js';
import { formatBytes } from '../units/bytes.js';
import { withConfig } from './adapt/adapted-config.js';
import { beginAttempt, type LiveAttempt } from './attempt.js';
import { jobEnvironment, runIdVariable } from './attempt-environment.js';
import { adoptJob, findLaunched, restoreLaunchFiles } from './launch/adopt.js';
import { becoming } from './launch/become-order.js';
import { type EndingOptions, endingOf, releaseRoom, takeRoom } from './launch/ending.js';
import {
  type LaunchedProcess,
  type LaunchFiles,
  type LaunchOptions,
  launch,
} from './launch/launch.js';
import { type LimitCgroup, makeLimitCgroup, readOwnKills } from './limit/cgroup.js';
import { limitedNow, readLimitOrder } from './limit/moving-limit.js';
import { type BoundLog, boundLog } from './log/bound-log.js';
import { lateLogLimit } from './log/log-limit.js';
import { fillCommand } from './placeholders.js';
import { hasVariable } from './processes/process-table.js';
import type { RunContext } from './run-context.js';
import type { Journal } from './store/journal.js';
import type { JournalEntry, StartedEntry } from './store/journal-entry.js';
import { progressFile } from './store/progress-file.js';
import { type RunFolder, readNumberFile } from './store/run-folder.js';
import { limitOn, type RunPlan } from './store/run-plan.js';
import type { EnforcedLimit, RunSettings } from './types.js';
import { deviceWords } from './words.js';

export interface OpenAttemptOptions {
  readonly plan: RunPlan;
  readonly folder: RunFolder;
  readonly context: RunContext;
  readonly journal: Journal;
  readonly past: readonly JournalEntry[];
  /** The driver's name for a device, where the program shall see that one only. */
  readonly visibleAs: (device: string) => string | undefined;
  readonly number: number;
  readonly settings: RunSettings;
  /** It was begun under an earlier supervisor. */
  readonly started: StartedEntry | undefined;
}

/** A shell that was started writes its pid within milliseconds; a machine that swaps takes longer. */
const launchSeconds = 1;

/** Starts an attempt, or takes up one that an earlier supervisor started. */
export async function openAttempt(options: OpenAttemptOptions): Promise<LiveAttempt> {
  const { plan, folder, context, journal, number, settings } = options;
  const files = folder.attemptFiles(number);
  const isThere = await wasLaunched(options, files);
  if (!isThere) takeRoom(files);
  const start = startOf(options, isThere, files);
  const { contextBytes = 0 } = plan;
  const ending: EndingOptions = {
    files,
    procRoot: context.procRoot,
    clock: context.clock,
    isOurs: (pid) =>
      context.platform !== 'linux' ||
      hasVariable(context.procRoot, pid, `${runIdVariable}=${plan.id}`),
    reap: (pid) => context.libc?.reap(pid),
  };
  const open = (onOutput: (bytes: Uint8Array) => void): LaunchedProcess => {
    if (isThere) {
      // A person's own run keeps all that was printed meanwhile: it is shown to them.
      const hold = plan.log === undefined ? undefined : (path: string) => boundLate(path, context);
      return adoptJob({ ...ending, outputs: context.outputs, onOutput, hold });
    }
    const job = launch({
      ...programOf(options, start),
      folder: plan.folder,
      files,
      outputs: context.outputs.plan,
      libc: context.libc,
      onOutput,
    });
    return { ...job, ended: job.ended.then((keeper) => endingOf(keeper, ending)) };
  };
  return beginAttempt(
    {
      runId: plan.id,
      number,
      settings,
      command: start.command,
      startedAt: start.at,
      firstPid: isThere ? readNumberFile(files.keeperPid) : undefined,
      bridge: plan.bridge,
      account: plan.account,
      memoryBytes: typeof start.limit.bytes === 'number' ? start.limit.bytes : undefined,
      besideBytes: settings.device === 'host' ? 0 : contextBytes,
      limitOrder: () => readLimitOrder(folder.path),
      onLimited: (answer) => {
        const at = new Date(context.clock.epochMs()).toISOString();
        writeIfRoom(journal, { type: 'limited', at, number, ...answer });
      },
      limit: start.limit,
      cgroup: start.cgroup ?? undefined,
      killsBefore: start.killsBefore,
      killsFile: files.kills,
      rungs: options.past.flatMap((entry) =>
        entry.type === 'climbed' && entry.number === number ? entry.rung : [],
      ),
      // The SDK, inside the program, has told people of it already.
      onRung: (rung) => writeIfRoom(journal, { type: 'climbed', number, rung }),
      onProgress: progressFile(folder.progress(number), () => context.clock.seconds()),
      open,
    },
    context,
  );
}

/** Where it cannot be bounded, the job's log cannot be either, and says so. */
function boundLate(path: string, { clock, libc }: RunContext): BoundLog {
  return boundLog({ path, limit: lateLogLimit, clock, libc, notify: () => {} });
}

/** It stands in the attempt as well, which is written when it ends. */
function writeIfRoom(journal: Journal, entry: JournalEntry): void {
  try {
    journal.write(entry);
  } catch (error) {
    if (!isDiskFull(error)) throw error;
  }
}

function startOf(
  options: OpenAttemptOptions,
  isThere: boolean,
  { exitCode }: LaunchFiles,
): StartedEntry {
  const { started } = options;
  // One that was written down and not begun: the cgroup of then may have been removed meanwhile.
  if (started !== undefined) return isThere ? started : { ...started, ...limitOf(options, false) };
  try {
    return writeStart(options, isThere);
  } catch (error) {
    if (!isThere) releaseRoom(exitCode);
    throw error;
  }
}

function limitOf(
  { plan, folder, context, number, settings }: OpenAttemptOptions,
  isRunning: boolean,
): Pick<StartedEntry, 'limit' | 'cgroup'> {
  const { enforced, cgroup } = enforceLimit({
    memoryBytes: limitOn(limitedNow(plan, folder), settings.device),
    contextBytes: plan.contextBytes,
    device: settings.device,
    deviceWords: deviceWords(settings),
    name: `${plan.id}-${number}`,
    procRoot: context.procRoot,
    platform: context.platform,
    isRunning,
  });
  return { limit: enforced, cgroup: cgroup ?? null };
}

/** Written down before it happens: an unrecorded start would be a job that never ends. */
function writeStart(options: OpenAttemptOptions, isRunning: boolean): StartedEntry {
  const { plan, folder, context, journal, number, settings } = options;
  const filled = fillCommand(plan.command, settings, number, plan.pinnedDevice);
  const command =
    plan.config === undefined || number === 1
      ? filled
      : withConfig(filled, plan.config, settings, folder.attemptFolder(number));
  const entry: StartedEntry = {
    type: 'started',
    at: new Date(context.clock.epochMs()).toISOString(),
    number,
    settings,
    command,
    ...limitOf(options, isRunning),
    killsBefore: readOwnKills(context.procRoot),
  };
  journal.write(entry);
  return entry;
}

/**
 * Whether the program was started under an earlier supervisor, which may have died between writing
 * that down and doing it. Where the files do not tell, they may have been removed or damaged: what
 * runs is not started again.
 */
async function wasLaunched(
  { plan, context, past, started, number }: OpenAttemptOptions,
  files: LaunchFiles,
): Promise<boolean> {
  const { clock, procRoot } = context;
  const isWritten = () =>
    [files.keeperPid, files.exitCode].some((file) => readNumberFile(file) !== undefined);
  // A journal that tells nothing may be of a new run, or damaged.
  if (past.length === 0) return isWritten();
  const until = clock.seconds() + (started === undefined ? 0 : launchSeconds);
  while (!isWritten() && clock.seconds() < until) {
    await clock.waitUntil(clock.seconds() + launchSeconds / 10);
  }
  if (isWritten()) return true;
  const variables = [`${runIdVariable}=${plan.id}`, `PLIMSOLL_ATTEMPT=${number}`];
  const found = findLaunched(procRoot, files, variables);
  if (found === undefined) return false;
  restoreLaunchFiles(files, found);
  return true;
}

/** What is launched: the program itself; or, as another account, what becomes it without being root. */
function programOf(
  options: OpenAttemptOptions,
  start: StartedEntry,
): Pick<LaunchOptions, 'command' | 'environment' | 'addressSpaceBytes' | 'cgroupProcs'> {
  const { plan, folder, number } = options;
  const { command } = start;
  const environment = environmentOf(options);
  const addressSpaceBytes = addressSpaceOf(start);
  const cgroupProcs = start.cgroup?.procs;
  if (plan.account === undefined) return { command, environment, addressSpaceBytes, cgroupProcs };
  const given: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined) given[name] = value;
  }
  const order = {
    account: plan.account,
    command,
    environment: given,
    folder: plan.folder,
    addressSpaceBytes: addressSpaceBytes ?? null,
    cgroupProcs: cgroupProcs ?? null,
  };
  const file = folder.attemptFiles(number).become;
  // What gives up root is larger than a small limit: it goes into the limit as the last thing it does.
  return {
    ...becoming(file, order, { [runIdVariable]: plan.id, PLIMSOLL_ATTEMPT: String(number) }),
    addressSpaceBytes: undefined,
    cgroupProcs: undefined,
  };
}

function environmentOf(options: OpenAttemptOptions): Readonly<Record<string, string | undefined>> {
  const { plan, folder, context, number, settings } = options;
  const { device } = settings;
  const fellToHost = device === 'host' && plan.settings.device !== 'host';
  return jobEnvironment({
    own: context.environment,
    settings,
    attempt: number,
    id: plan.id,
    bridge: plan.bridge,
    // That of root is closed to other accounts; they keep no snapshots.
    sdkFolder: plan.account === undefined ? folder.sdk : undefined,
    pythonFolder: context.pythonFolder,
    memoryBytes: limitOn(limitedNow(plan, folder), device),
    spill: plan.spill ?? 'auto',
    visible: plan.pinnedDevice || fellToHost ? visibleTo(options) : undefined,
  });
}

/** All devices of the run, as the driver calls them; none where it fell to the host. */
function visibleTo({ plan, settings, visibleAs }: OpenAttemptOptions): string | undefined {
  const all = settings.device === plan.settings.device ? plan.devices : undefined;
  const names = (all ?? [settings.device]).map(visibleAs).filter((name) => name !== undefined);
  return names.length === 0 ? undefined : names.join(',');
}

function addressSpaceOf({ limit }: StartedEntry): number | undefined {
  return limit.by === 'address-space' && typeof limit.bytes === 'number' ? limit.bytes : undefined;
}

/** A limit that was set, ready for a process to start under it. */
interface LimitSetup {
  readonly enforced: EnforcedLimit;
  readonly cgroup: LimitCgroup | undefined;
  readonly addressSpaceBytes: number | undefined;
}

/**
 * Makes `--memory` hold for an attempt: on a GPU through the SDK, on the host by a cgroup where we
 * may make one, else by the address space.
 */
export function enforceLimit(options: {
  readonly memoryBytes: number | undefined;
  /** What a CUDA context takes of the GPU beside that. */
  readonly contextBytes?: number | undefined;
  readonly device: string;
  /** The same for people, where it is simulated. */
  readonly deviceWords?: string;
  /** Of the run and the attempt: no two are alike. */
  readonly name: string;
  readonly procRoot: string;
  readonly platform: NodeJS.Platform;
  /** The attempt runs already, in the cgroup of its name. */
  readonly isRunning?: boolean;
  readonly make?: typeof makeLimitCgroup;
}): LimitSetup {
  const { memoryBytes, device, procRoot, name } = options;
  const nothing = { cgroup: undefined, addressSpaceBytes: undefined };
  if (memoryBytes === undefined) {
    return { ...nothing, enforced: { bytes: 'none', by: 'none', why: 'No --memory was given.' } };
  }
  const enforced = { bytes: memoryBytes };
  if (device !== 'host') {
    const { contextBytes = 0, deviceWords: on = device } = options;
    const beside =
      contextBytes === 0
        ? ''
        : ` The CUDA context takes about ${formatBytes(contextBytes)} beside it (estimated).`;
    const why = `On ${on} the SDK holds it, in programs that use PyTorch.${beside}`;
    return { ...nothing, enforced: { ...enforced, by: 'sdk', why } };
  }
  const made =
    options.platform === 'linux'
      ? (options.make ?? makeLimitCgroup)({
          procRoot,
          name,
          limitBytes: memoryBytes,
          isRunning: options.isRunning,
        })
      : { why: `there are none on ${options.platform}` };
  if ('folder' in made) {
    const why = 'The kernel counts all processes of the job together.';
    return {
      ...nothing,
      cgroup: made,
      enforced: { ...enforced, by: `cgroup-v${made.version}`, why },
    };
  }
  const why = `No cgroup: ${made.why}. The address space of each process is limited instead.`;
  return {
    ...nothing,
    addressSpaceBytes: memoryBytes,
    enforced: { ...enforced, by: 'address-space', why },
  };
}
