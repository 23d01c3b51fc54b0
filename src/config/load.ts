import { dirname, resolve } from 'node:path';
import { Failure } from '../failure.js';
import { outOfOrder } from '../watch/alerts/alert-thresholds.js';
import { findConfigFile, readConfigFile } from './config-file.js';
import { configurationVariables, type Environment } from './environment.js';
import type { Config } from './schema.js';
import { defaultSettings, jobSections, type Settings } from './settings.js';

export interface LoadOptions {
  /** The current folder. */
  readonly folder: string;
  readonly environment: Environment;
  /** `--config FILE`. */
  readonly configPath?: string | undefined;
  /** The command's own defaults. */
  readonly defaults?: Config | undefined;
  /** Settings from options of the command; they win over all others. */
  readonly options?: Config | undefined;
}

/**
 * Puts the settings together: option over variable over file over default. The schema library is
 * loaded only when there is a file or a variable to check.
 *
 * @example
 * const settings = await loadSettings({ folder: process.cwd(), environment: process.env });
 * settings.intervalSeconds; // 0.1 unless set otherwise
 */
export async function loadSettings(load: LoadOptions): Promise<Settings> {
  const fromFile = await configFromFile(load);
  const variables = configurationVariables(load.environment);
  const fromVariables =
    variables.size === 0 ? {} : (await import('./environment.js')).configFromVariables(variables);
  const all = [load.defaults ?? {}, fromFile, fromVariables, load.options ?? {}];
  const settings = all.reduce(merge, defaultSettings);
  checkOrder(settings);
  return settings;
}

async function configFromFile({ folder, environment, configPath }: LoadOptions): Promise<Config> {
  const named = configPath ?? (environment['PLIMSOLL_CONFIG'] || undefined);
  const path = named === undefined ? findConfigFile(folder) : resolve(folder, named);
  if (path === undefined) return {};
  const file = readConfigFile(path, folder, named !== undefined);
  const { checkConfig } = await import('./config-file.js');
  const show = (place: { line: number; column: number }) =>
    `${file.shownPath}:${place.line}:${place.column}`;
  const config = checkConfig(file.value, {
    ofValue: (keys) => show(file.placeOf(keys)),
    ofKey: (keys) => show(file.placeOfKey(keys)),
  });
  return withPathsFrom(dirname(path), config);
}

/** A path written in the file is meant from where the file is, wherever the command is run. */
function withPathsFrom(folder: string, config: Config): Config {
  const from = (text: string) => (/[\\/]|\.json$/.test(text) ? resolve(folder, text) : text);
  const { nvmlLibrary, simulate, alerts } = config;
  const log = alerts?.deliver?.log;
  return {
    ...config,
    ...(nvmlLibrary === undefined ? {} : { nvmlLibrary: from(nvmlLibrary) }),
    ...(simulate === undefined ? {} : { simulate: from(simulate) }),
    ...(typeof log === 'string'
      ? { alerts: { ...alerts, deliver: { ...alerts?.deliver, log: resolve(folder, log) } } }
      : {}),
  };
}

function merge(settings: Settings, config: Config): Settings {
  const { $schema: _editorsOnly, alerts, ...rest } = config;
  const { deliver, enabled, ...thresholds } = alerts ?? {};
  return {
    ...settings,
    ...withoutUndefined(rest),
    alerts: {
      ...settings.alerts,
      ...withoutUndefined(thresholds),
      enabled: { ...settings.alerts.enabled, ...withoutUndefined(enabled ?? {}) },
    },
    deliver: { ...settings.deliver, ...withoutUndefined(deliver ?? {}) },
    ...Object.fromEntries(
      jobSections.map((name) => [
        name,
        { ...settings[name], ...withoutUndefined(config[name] ?? {}) },
      ]),
    ),
  };
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function withoutUndefined<T extends object>(object: T): Defined<T> {
  const result: Defined<T> = { ...object };
  for (const key of Object.keys(object)) {
    if (Reflect.get(object, key) === undefined) Reflect.deleteProperty(result, key);
  }
  return result;
}

/** Each may come from another place, so this can only be seen once they are together. */
function checkOrder({ alerts, training }: Settings): void {
  checkBatches(training);
  const [warning, critical] = outOfOrder(alerts) ?? [];
  if (warning === undefined || critical === undefined) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-config-value',
    fact: `alerts.${warning} (${alerts[warning]}) is above alerts.${critical} (${alerts[critical]}).`,
    next: 'The warning level must not be above the critical level: change one of them.',
  });
}

function checkBatches({ batch, minBatch, maxBatch }: Settings['training']): void {
  const given = Object.entries({ minBatch, batch, maxBatch }).flatMap(([name, value]) =>
    value === undefined ? [] : [{ name, value }],
  );
  for (const [index, { name, value }] of given.entries()) {
    const next = given[index + 1];
    if (next === undefined || value <= next.value) continue;
    throw new Failure({
      kind: 'input',
      code: 'bad-config-value',
      fact: `training.${name} (${value}) is above training.${next.name} (${next.value}).`,
      next: 'Change one of them.',
    });
  }
}
