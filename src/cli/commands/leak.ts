import { readFile } from 'node:fs/promises';
import { parseProportional } from '../../device/host/linux-host.js';
import { machineRoots } from '../../device/kernel-files.js';
import {
  type Device,
  type DeviceInfo,
  DeviceLost,
  type MemoryReading,
} from '../../device/types.js';
import { Failure } from '../../failure.js';
import { cleanText } from '../../report/text/text-width.js';
import { leakWords, rateWords } from '../../report/words.js';
import { type ProcessFacts, readProcessFacts } from '../../run/processes/process-facts.js';
import { openUserNames } from '../../run/processes/user-names.js';
import { formatBytes, MiB } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown, type Known } from '../../units/known.js';
import type { Cause, DeviceState, Leak } from '../../watch/types.js';
import { type CliIo, type CommandModule, printJson, textStyle } from '../io.js';
import { mebibytesArgument, pidArgument } from '../options/arguments.js';
import { addWatchOptions, settingsOf, type WatchArguments } from '../options/watch-options.js';
import { type Progress, watchProgress } from '../screen/progress.js';
import { type Stop, stopOnSignals } from '../stop.js';
import { runWatch, withStop } from '../watching.js';

interface LeakArguments extends WatchArguments {
  readonly check?: boolean;
  readonly strict?: boolean;
  readonly threshold?: number;
  readonly pid?: number;
}

const checkSeconds = 30;
const defaultThresholdBytes = 100 * MiB;
/** Asking for one process costs more than asking for a device: a second is often enough. */
const processIntervalSeconds = 1;

export const leakCommand: CommandModule = {
  define(command, context) {
    addWatchOptions(command, `${checkSeconds} with --check, else 0`)
      .option('--check', 'watch for a while, then answer with the exit code')
      .option('--strict', 'with --check: also exit with 1 when the answer is unknown')
      .option(
        '--threshold <MiB>',
        'smallest growth that counts as a leak: MiB (100), or a size with a unit',
        mebibytesArgument('--threshold'),
      )
      .option(
        '--pid <number>',
        'watch this process: its GPU memory, or its host memory if it uses no GPU',
        pidArgument('--pid'),
      )
      .addHelpText(
        'after',
        `
A leak is memory that grows evenly, is not freed, and has grown by at least the threshold. Telling it
from a program that is still starting takes 25 s of data, or three cycles of a sawtooth. Until then,
and while growth slows down, the answer is "unknown", with the rate and how long to watch; it is never
"none" while memory grows. With --check the exit code is 1 when a leak was found, else 0; with
--strict it is also 1 when the answer is unknown. Without --check it runs until interrupted and
reports each leak when it is found and when it has doubled.

Examples:
  plimsoll leak --check --threshold 100
  plimsoll leak --check --pid 4711 --duration 120`,
      )
      .action(
        context.action((given: LeakArguments) =>
          withStop(stopOnSignals([context.io.stdout.closed]), (stop) =>
            runLeak(given, context.io, stop),
          ),
        ),
      );
  },
};

async function runLeak(given: LeakArguments, io: CliIo, stop: Stop): Promise<number> {
  const { pid, threshold = defaultThresholdBytes } = given;
  const slower = pid === undefined ? {} : { interval: processIntervalSeconds };
  const settings = await settingsOf({ ...slower, ...given }, io);
  const news = new LeakNews(threshold);
  const names = new LeakNames();
  if (pid !== undefined) names.read(pid);
  const durationSeconds = given.duration ?? (given.check ? checkSeconds : 0);
  const show = watchProgress(durationSeconds, leakProgress, textStyle(io).unicode);
  const watching = await runWatch({
    settings,
    io,
    durationSeconds,
    signal: stop.signal,
    ...(pid === undefined ? {} : { instead: (devices) => followProcess(pid, devices) }),
    // Leaks are this command's own answer, and a process is not a device that went away.
    isPrinted: (event) =>
      event.type === 'alert' ? event.alert.kind !== 'leak' : pid === undefined,
    onEvent(event, { states }, progress) {
      if (event.type === 'sample') {
        names.take(event.state);
        if (!given.check && !given.json) printNews(event.state, news, names, progress, io);
        show(event.sample.atSeconds, states(), progress);
      }
      // With the process gone there is nothing left to follow; that it ended is no error.
      const gone = event.type === 'vanished' && states().every((state) => !state.present);
      if (pid === undefined || !gone) return;
      progress.line(`plimsoll: ${event.reason}`);
      stop.stop();
    },
  });
  const verdict = leakVerdict(watching.states(), threshold, names.of);
  const who = pid === undefined ? undefined : names.of(pid);
  if (given.json) printJson(io, who === undefined ? verdict : { ...verdict, who });
  else if (given.check) io.stdout.write(verdictText(verdict, watching.states(), who));
  const fails = verdict.found === true || (given.strict === true && verdict.found === 'unknown');
  return stop.interruptedBy ?? (fails ? 1 : 0);
}

/** `gpu:0 grows by 12 MiB a second`, or how much is used. */
function leakProgress({ info, leak: found, latest }: DeviceState): string {
  const grows = found.found !== false && isKnown(found.bytesPerSecond) && found.bytesPerSecond > 0;
  return grows
    ? `${info.id} grows by ${rateWords(found.bytesPerSecond)}`
    : `${info.id} ${formatBytes(latest.usedBytes)}`;
}

function printNews(
  state: DeviceState,
  news: LeakNews,
  names: LeakNames,
  progress: Progress,
  io: CliIo,
): void {
  const print = (who: string, found: Leak, more: readonly string[] = []) => {
    if (!news.take(who, found)) return;
    progress.end();
    const when = new Date(state.latest.epochMs).toISOString();
    const line = `${when} ${who}: ${leakWords(found)} (${state.info.provenance})`;
    for (const one of [line, ...more]) io.stdout.write(`${cleanText(one)}\n`);
  };
  print(`${state.info.id} (${state.info.name})`, state.leak);
  for (const [pid, found] of state.processLeaks) {
    print(`${state.info.id} process ${pid}`, found, nameLines(names.of(pid)));
  }
}

function verdictText(
  verdict: LeakVerdict,
  states: readonly DeviceState[],
  who: LeakName | undefined,
): string {
  const seconds = Math.max(0, ...states.map((state) => state.latest.atSeconds));
  const lines = verdict.devices.flatMap((device) => [
    `${device.id}  ${device.name}: ${leakWords(device.leak)}${mark(device.overThreshold)}`,
    ...(device.overThreshold ? nameLines(who) : []),
    ...device.processLeaks.flatMap(processLines),
  ]);
  const answer = answerText(verdict, seconds);
  const end = `${answer} Watched for ${formatSeconds(seconds)}.`;
  return `${[...lines, end].map(cleanText).join('\n')}\n`;
}

function processLines(one: ProcessLeak): string[] {
  const line = `  process ${one.pid} (${one.name}): ${leakWords(one)}${mark(one.overThreshold)}`;
  return [line, ...(one.overThreshold ? nameLines(one.who) : [])];
}

/** Who it is, and the next step; nothing where that could not be read. */
function nameLines(who: LeakName | undefined): string[] {
  if (who === undefined) return [];
  const { user, commandLine, script, container, next } = who;
  const inContainer = container === 'none' || !isKnown(container) ? '' : `, in ${container}`;
  const what = script === 'none' || !isKnown(script) ? 'a program' : script;
  return [`    ${what} of ${user}${inContainer}: ${commandLine}`, `    next: ${next}`];
}

function answerText(
  { found, watchSeconds, devices, thresholdBytes }: LeakVerdict,
  seen: number,
): string {
  if (found === true) return 'A leak was found.';
  if (found === 'unknown') {
    const duration = Math.ceil(seen + watchSeconds);
    return `Whether there is a leak is unknown: watch longer (--duration ${duration}).`;
  }
  const small = devices.some(
    (device) => device.leak.found === true || device.processLeaks.some((one) => one.found === true),
  );
  return small
    ? `Memory leaks, but took less than ${formatBytes(thresholdBytes)} so far.`
    : 'No leak was found.';
}

function mark(overThreshold: boolean): string {
  return overThreshold ? '  LEAK' : '';
}

/** The answer of `plimsoll leak`, as its JSON shows it. */
interface LeakVerdict {
  readonly thresholdBytes: number;
  /**
   * True when a leak was found that grew by the threshold or more while it was watched; unknown
   * while memory grows in a way that may be a start, or too little was seen.
   */
  readonly found: Known<boolean>;
  /** How much longer to watch until it can be told; 0 when it is. */
  readonly watchSeconds: number;
  readonly devices: readonly DeviceLeak[];
}

interface DeviceLeak extends DeviceInfo {
  readonly usedBytes: Known<number>;
  readonly leak: Leak;
  readonly overThreshold: boolean;
  readonly cause: Cause;
  readonly processLeaks: readonly ProcessLeak[];
}

interface ProcessLeak extends Leak {
  readonly pid: number;
  readonly name: Known<string>;
  /** Who it is and what to do next; absent where that could not be read. */
  readonly who?: LeakName;
  readonly overThreshold: boolean;
}

/**
 * A leak counts when it is found in the statistics AND grew by at least the threshold: a sure leak
 * of a few bytes is not worth failing for, and a large growth that settles is no leak.
 */
export function leakVerdict(
  states: readonly DeviceState[],
  thresholdBytes: number,
  whoIs: (pid: number) => LeakName | undefined = () => undefined,
): LeakVerdict {
  const devices = states.map((state) => deviceLeak(state, thresholdBytes, whoIs));
  const found = anyFound(devices, thresholdBytes);
  const open = leaksOf(devices).filter((leak) => mayCount(leak, thresholdBytes));
  const watchSeconds = found === 'unknown' ? Math.max(...open.map((leak) => leak.watchSeconds)) : 0;
  return { thresholdBytes, found, watchSeconds, devices };
}

function deviceLeak(
  state: DeviceState,
  thresholdBytes: number,
  whoIs: (pid: number) => LeakName | undefined,
): DeviceLeak {
  const names = new Map(
    isKnown(state.processes) ? state.processes.map(({ pid, name }) => [pid, name]) : [],
  );
  return {
    ...state.info,
    usedBytes: state.latest.usedBytes,
    leak: state.leak,
    overThreshold: counts(state.leak, thresholdBytes),
    cause: state.cause,
    processLeaks: Array.from(state.processLeaks, ([pid, leak]) => ({
      pid,
      name: names.get(pid) ?? 'unknown',
      ...named(whoIs(pid)),
      ...leak,
      overThreshold: counts(leak, thresholdBytes),
    })),
  };
}

function named(who: LeakName | undefined): { who?: LeakName } {
  return who === undefined ? {} : { who };
}

function leaksOf(devices: readonly DeviceLeak[]): Leak[] {
  return devices.flatMap((device) => [device.leak, ...device.processLeaks]);
}

/** One that is found decides; without it, one that is unknown leaves the whole unknown. */
function anyFound(devices: readonly DeviceLeak[], thresholdBytes: number): Known<boolean> {
  const over = devices.some(
    (device) => device.overThreshold || device.processLeaks.some((leak) => leak.overThreshold),
  );
  if (over) return true;
  return leaksOf(devices).some((leak) => mayCount(leak, thresholdBytes)) ? 'unknown' : false;
}

/** Whether a growth that is not decided yet could still count by the time that it is. */
function mayCount(leak: Leak, thresholdBytes: number): boolean {
  if (leak.found !== 'unknown') return false;
  const { grownBytes, bytesPerSecond, watchSeconds } = leak;
  if (!isKnown(grownBytes) || !isKnown(bytesPerSecond)) return true;
  return grownBytes + bytesPerSecond * watchSeconds >= thresholdBytes;
}

function counts(leak: Leak, thresholdBytes: number): boolean {
  return leak.found === true && isKnown(leak.grownBytes) && leak.grownBytes >= thresholdBytes;
}

/** Decides when a leak is news: when it is first found, and each time it has doubled since. */
export class LeakNews {
  readonly #thresholdBytes: number;
  readonly #announcedBytes = new Map<string, number>();

  constructor(thresholdBytes: number) {
    this.#thresholdBytes = thresholdBytes;
  }

  /** `who` is one device, or one process on one. */
  take(who: string, leak: Leak): boolean {
    if (leak.found === false) this.#announcedBytes.delete(who);
    if (!counts(leak, this.#thresholdBytes) || !isKnown(leak.grownBytes)) return false;
    const announced = this.#announcedBytes.get(who);
    if (announced !== undefined && leak.grownBytes < 2 * announced) return false;
    this.#announcedBytes.set(who, leak.grownBytes);
    return true;
  }
}

/** What is asked of the operating system about one process. */
export interface ProcessTable {
  isAlive(pid: number): boolean;
  /** Its share of the host's memory, always the same measure; `unknown` when it may not be seen. */
  hostBytes(pid: number): Promise<Known<number>>;
}

/**
 * One process, as devices that watching can take: its memory on each GPU that holds some of it, as
 * the driver tells, or else its memory on the host. A process that ends is a device that is lost.
 */
export async function followProcess(
  pid: number,
  devices: readonly Device[],
  table: ProcessTable = systemProcesses(),
): Promise<readonly Device[]> {
  if (!table.isAlive(pid)) {
    throw new Failure({
      kind: 'input',
      code: 'unknown-process',
      fact: `There is no process ${pid}.`,
      next: 'Run "plimsoll devices" to see the processes that hold memory.',
    });
  }
  const found: Device[] = [];
  for (const device of devices) {
    if (device.info.kind !== 'gpu') continue;
    const onGpu = () => bytesOnGpu(device, pid);
    if (typeof (await onGpu()) === 'number') found.push(view(device, pid, onGpu, table));
  }
  const host = devices.find(({ info }) => info.kind === 'host');
  if (found.length === 0 && host) found.push(view(host, pid, () => table.hostBytes(pid), table));
  if (found.length > 0) return found;
  throw new Failure({
    kind: 'input',
    code: 'process-not-on-device',
    fact: `Process ${pid} uses no memory on ${devices.map(({ info }) => info.id).join(', ')}.`,
    next: 'Leave out --devices to look at all devices.',
  });
}

/** Undefined when the driver does not list it. */
async function bytesOnGpu(device: Device, pid: number): Promise<Known<number> | undefined> {
  const processes = await device.processes();
  if (!isKnown(processes)) return 'unknown';
  return processes.find((one) => one.pid === pid)?.usedBytes;
}

function view(
  device: Device,
  pid: number,
  bytes: () => Promise<Known<number> | undefined>,
  table: ProcessTable,
): Device {
  const { info } = device;
  return {
    info: { ...info, name: `process ${pid} on ${info.name}` },
    async read(): Promise<MemoryReading> {
      const [usedBytes, whole] = await Promise.all([bytes(), device.read()]);
      if (!table.isAlive(pid)) throw new DeviceLost(info.id, `Process ${pid} has ended.`);
      const { totalBytes, freeBytes } = whole;
      // Alive and not listed: it gave back all it had there.
      return { totalBytes, usedBytes: usedBytes ?? 0, freeBytes, utilizationPercent: 'unknown' };
    },
    processes: () => Promise.resolve('unknown'),
  };
}

function systemProcesses(): ProcessTable {
  // Shared pages count by share (PSS) or in full (RSS): one of them, chosen at the first reading,
  // because a change of measure would look like growth.
  let measure: 'proportional' | 'resident' | undefined;
  return {
    isAlive,
    async hostBytes(pid) {
      if (measure !== 'resident') {
        const bytes = parseProportional(await readText(`/proc/${pid}/smaps_rollup`));
        if (bytes !== undefined) measure = 'proportional';
        if (bytes !== undefined || measure === 'proportional') return bytes ?? 'unknown';
      }
      measure = 'resident';
      return parseResident(await readText(`/proc/${pid}/status`));
    },
  };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It is there, and belongs to someone else.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

function parseResident(status: string): Known<number> {
  const match = /^VmRSS:\s+(\d{1,12}) kB$/m.exec(status);
  return match === null ? 'unknown' : Number(match[1]) * 1024;
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return '';
  }
}

/** Who a process is that leaks, and what to do to learn what in it does. */
export interface LeakName {
  readonly user: Known<string>;
  readonly commandLine: Known<string>;
  /** Or `none`. */
  readonly script: Known<string>;
  /** Or `none`. */
  readonly container: Known<string>;
  readonly next: string;
}

/** Reads who a process is when it is first seen to grow: at the end of the watch it may be gone. */
export class LeakNames {
  readonly #names = new Map<number, LeakName>();
  readonly #options = { procRoot: machineRoots.proc, userName: openUserNames() };

  take({ info, processLeaks }: DeviceState): void {
    if (info.provenance === 'simulated') return;
    for (const pid of processLeaks.keys()) this.read(pid);
  }

  read(pid: number): void {
    if (this.#names.has(pid)) return;
    const facts = readProcessFacts(pid, this.#options);
    if (facts !== undefined) this.#names.set(pid, leakName(facts));
  }

  of = (pid: number): LeakName | undefined => this.#names.get(pid);
}

/** What is told of a process whose facts are known. */
export function leakName(facts: ProcessFacts): LeakName {
  const { user, commandLine, script, container } = facts;
  return { user, commandLine, script, container, next: nextStep(facts) };
}

function nextStep({ commandLine, script, run, pid }: ProcessFacts): string {
  const isPython = isKnown(commandLine) && /(^|\/)(python|pypy)[\d.]*( |$)/.test(commandLine);
  if (!isPython) {
    return /(^|\/)node( |$)/.test(commandLine)
      ? 'Start it with --heapsnapshot-signal=SIGUSR2, send that signal twice, and compare the two snapshots.'
      : `Its own profiler must tell what grows; plimsoll monitor shows process ${pid} over time.`;
  }
  const where = script === 'none' || !isKnown(script) ? 'it' : script;
  const how =
    run === 'none' || !isKnown(run)
      ? `pip install plimsoll, then in ${where}`
      : `plimsoll is in this program (run ${run}): in ${where}`;
  return `${how} put "debug = plimsoll.debugger(); debug.start()" before the loop and "debug.stop(); print(debug.report())" after it: it names the tensors and objects that grow, and the variable that holds them.`;
}
