import { hostname } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { homeFolder } from '../../files/folders.js';
import { type Exporter, openExporter } from '../../server/exporter/open-exporter.js';
import { type Clock, systemClock } from '../../time/clock.js';
import { formatBytes } from '../../units/bytes.js';
import { type CliIo, type CommandContext, type CommandModule, printJson } from '../io.js';
import {
  countArgument,
  intervalArgument,
  percentArgument,
  portArgument,
} from '../options/arguments.js';
import { addDeviceOptions, type DeviceArguments, settingsOf } from '../options/watch-options.js';
import { type Stop, stopOnSignals } from '../stop.js';

interface ExporterArguments extends DeviceArguments {
  readonly host: string;
  readonly port: number;
  readonly interval?: number;
  readonly loadLine?: number;
  readonly processes: number;
  readonly tokenFile?: string;
  readonly textfile?: string;
  readonly node?: string;
}

/** Prometheus scrapes every 15 s or so; forecasts need more readings than that. */
const usualPace = { intervalSeconds: 2, processIntervalSeconds: 15 };
/** Not one of the usual exporters listens there. */
const usualPort = 9847;
const usualProcesses = 50;
/** Devices that have not been read by then appear in a later scrape. */
const firstReadingSeconds = 5;
const lookSeconds = 0.02;

export const exporterCommand: CommandModule = {
  define(command, context) {
    addDeviceOptions(command)
      .option('--host <address>', 'where to listen; 0.0.0.0 is every address', '127.0.0.1')
      .option('--port <n>', 'where to listen; 0 is any free port', portArgument, usualPort)
      .option('--interval <seconds>', 'seconds between samples (2)', intervalArgument('--interval'))
      .option(
        '--load-line <percent>',
        'percent of a device that jobs may reserve (90)',
        percentArgument('--load-line'),
      )
      .option(
        '--processes <n>',
        'how many processes of each device are shown, the largest first',
        countArgument('--processes'),
        usualProcesses,
      )
      .option('--token-file <file>', 'ask for this token; without it, all who reach it may read')
      .option(
        '--textfile <file>',
        "write the metrics to this file for node_exporter's textfile collector, and do not listen",
      )
      .option('--node <name>', 'the name of this node (its host name)')
      .addHelpText('after', help)
      .action(context.action((given: ExporterArguments) => exporter(given, context)));
  },
};

const help = `
One process per node. It reads memory every 2 seconds and answers GET /metrics for Prometheus: devices,
processes, jobs, forecasts, leaks, alerts. It starts nothing and keeps no files. As root it also sees
the jobs and ranks of other users' processes. Ctrl-C or SIGTERM stops it with exit code 0.

Examples:
  plimsoll exporter --host 0.0.0.0
  plimsoll exporter --textfile /var/lib/node_exporter/plimsoll.prom
  curl -s localhost:${usualPort}/metrics`;

async function exporter(given: ExporterArguments, context: CommandContext): Promise<number> {
  const { io, version } = context;
  const { folder } = io;
  const settings = await settingsOf(given, io, usualPace);
  const { host, port, textfile, tokenFile: file } = given;
  const token = file === undefined ? undefined : await tokenOf(file, io);
  using stop = stopOnSignals([io.stdout.closed]);
  const opened = await openExporter({
    settings,
    host,
    port,
    token,
    textfile,
    maxProcesses: given.processes,
    node: given.node ?? hostname(),
    version,
    folder,
    log: (line) => io.stderr.write(`plimsoll: ${line}\n`),
  });
  try {
    await firstReadings(opened, stop);
    printReady(opened, given, io);
    await collectRegularly(systemClock, stop.signal);
  } finally {
    await opened.close();
  }
  return 0;
}

/** Loaded where it is asked for: cryptography takes more memory than all the rest. */
async function tokenOf(file: string, { environment, folder }: CliIo): Promise<string | undefined> {
  const { serveToken } = await import('../options/serve-token.js');
  return serveToken({ file, none: false, environment, folder, home: homeFolder(environment) });
}

async function firstReadings(opened: Exporter, { signal }: Stop): Promise<void> {
  const until = systemClock.seconds() + firstReadingSeconds;
  while (!opened.hasReadAll() && systemClock.seconds() < until && !signal.aborted) {
    await systemClock.waitUntil(systemClock.seconds() + lookSeconds, signal);
  }
}

function printReady({ place, states, notes }: Exporter, { json }: ExporterArguments, io: CliIo) {
  const devices = states().map(({ info: { id, name, provenance }, latest }) => ({
    id,
    name,
    provenance,
    totalBytes: latest.totalBytes,
  }));
  if (json) {
    // On one line: a program that waits for it knows that it is whole.
    printJson(io, { place, pid: process.pid, devices, notes }, 0);
    return;
  }
  io.stdout.write(`Metrics: ${place}\n`);
  for (const { id, name, totalBytes, provenance } of devices) {
    const simulated = provenance === 'simulated' ? ' (simulated)' : '';
    io.stdout.write(`${id.padEnd(10)} ${name}${simulated}, ${formatBytes(totalBytes)}\n`);
  }
  for (const note of notes) io.stdout.write(`${'note'.padEnd(10)} ${note}\n`);
}

/**
 * Node lets the garbage of a process that does little grow to nearly as much as it holds, some 4 MB here.
 * A collection takes some 20 ms: once a minute that is nothing.
 */
const everySeconds = 60;

/** Collects garbage once a minute, until `signal` aborts. */
export async function collectRegularly(
  clock: Clock,
  signal: AbortSignal,
  collect: () => void = collector(),
): Promise<void> {
  for (;;) {
    await clock.waitUntil(clock.seconds() + everySeconds, signal);
    if (signal.aborted) return;
    collect();
  }
}

/** The collector of V8, which only a new context shows. */
export function collector(): () => void {
  setFlagsFromString('--expose-gc');
  const found: unknown = runInNewContext('gc');
  setFlagsFromString('--no-expose-gc');
  return () => {
    if (typeof found === 'function') found();
  };
}
