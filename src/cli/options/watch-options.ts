import { resolve } from 'node:path';
import type { Command } from 'commander';
import { loadSettings } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import type { Settings } from '../../config/settings.js';
import { Failure } from '../../failure.js';
import { authorizationOf, type PrometheusAddress, prometheusUrl } from '../../fleet/prometheus.js';
import type { CliIo } from '../io.js';
import {
  devicesArgument,
  durationArgument,
  intervalArgument,
  percentArgument,
} from './arguments.js';
import { readToken } from './serve-token.js';

/** What the options below become. */
export interface WatchArguments extends DeviceArguments {
  readonly interval?: number;
  readonly duration?: number;
  readonly loadLine?: number;
}

export interface DeviceArguments {
  readonly devices?: readonly string[];
  readonly simulate?: string;
  readonly config?: string;
  readonly json?: boolean;
}

/** Which devices, from where; every command that looks at memory takes these. */
export function addDeviceOptions(command: Command): Command {
  return command
    .option(
      '--devices <ids...>',
      'only these devices, such as 0 1 gpu:0/mig:1 host',
      devicesArgument,
    )
    .option(
      '--simulate <scenario>',
      'a simulated GPU: a scenario by name, or a recorded trace.json',
    )
    .option('--config <file>', 'configuration file (plimsoll.config.json)')
    .option('--json', 'print one JSON document on stdout');
}

/** How long and how often; every command that watches takes these. */
export function addWatchOptions(command: Command, usualDuration: string): Command {
  return addDeviceOptions(command)
    .option('--interval <seconds>', 'seconds between samples (0.1)', intervalArgument('--interval'))
    .option(
      '--duration <seconds>',
      `how long to watch; 0 = until interrupted (${usualDuration})`,
      durationArgument('--duration'),
    )
    .option(
      '--load-line <percent>',
      'percent of a device that jobs may reserve (90)',
      percentArgument('--load-line'),
    );
}

/** The settings these options lead to, together with variables and the file. */
export function settingsOf(
  given: DeviceArguments & { interval?: number; loadLine?: number },
  io: CliIo,
  defaults: Config = {},
): Promise<Settings> {
  const options: Config = {
    devices: given.devices === undefined ? undefined : [...given.devices],
    simulate: given.simulate,
    intervalSeconds: given.interval,
    loadLinePercent: given.loadLine,
  };
  return loadSettings({
    folder: io.folder,
    environment: io.environment,
    configPath: given.config,
    defaults,
    options,
  });
}

export interface PrometheusArguments {
  readonly prometheus?: string;
  readonly prometheusAuthFile?: string;
}

export function addPrometheusOptions(command: Command): Command {
  return command
    .option('--prometheus <url>', 'Prometheus that scrapes the nodes (PLIMSOLL_PROMETHEUS)')
    .option(
      '--prometheus-auth-file <file>',
      'file with "bearer TOKEN" or "basic USER:PASSWORD" for it (PLIMSOLL_PROMETHEUS_AUTH)',
    );
}

/** The Prometheus that was named; undefined where none was. */
export function prometheusOf(
  { prometheus, prometheusAuthFile: file }: PrometheusArguments,
  { environment, folder }: Pick<CliIo, 'environment' | 'folder'>,
): PrometheusAddress | undefined {
  const text = prometheus ?? environment['PLIMSOLL_PROMETHEUS'] ?? '';
  if (text === '') {
    if (file !== undefined) throw withoutAddress();
    return undefined;
  }
  const url = prometheusUrl(
    text,
    prometheus === undefined ? 'PLIMSOLL_PROMETHEUS' : '--prometheus',
  );
  if (file !== undefined) {
    return { url, authorization: authorizationOf(readToken(resolve(folder, file), file), file) };
  }
  const variable = 'PLIMSOLL_PROMETHEUS_AUTH';
  const secret = environment[variable] ?? '';
  return secret === '' ? { url } : { url, authorization: authorizationOf(secret, variable) };
}

function withoutAddress(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: '--prometheus-auth-file is given without --prometheus.',
    next: 'Add --prometheus http://prometheus:9090.',
  });
}
