import type { Command } from 'commander';
import { loadSettings } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import type { Settings } from '../../config/settings.js';
import type { CliIo } from '../io.js';
import {
  devicesArgument,
  durationArgument,
  intervalArgument,
  percentArgument,
} from './arguments.js';

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
