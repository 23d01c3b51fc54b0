import { loadSettings } from '../../config/load.js';
import { allGpus } from '../../estimate/cards/gpus.js';
import { describeConfig } from '../../model/config/describe-config.js';
import { shippedCatalogue } from '../../model/names/find-model.js';
import { formatBytes } from '../../units/bytes.js';
import { formatCount } from '../../units/words.js';
import { type CliIo, type CommandModule, printJson } from '../io.js';

interface ListArguments {
  readonly config?: string;
  readonly json?: boolean;
}

/** The models that `estimate` and `plan` know by name. */
export const modelsCommand: CommandModule = {
  define(command, { io, action }) {
    command
      .argument('[words...]', 'only names that have all of these words')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
Other models work by their config.json, or by name with --hub. Names are matched without case,
punctuation and organization.

Examples:
  plimsoll models
  plimsoll models llama 8b
  plimsoll models --json | jq -r '.models[].name'`,
      )
      .action(action((words: readonly string[], given: ListArguments) => models(words, given, io)));
  },
};

async function models(words: readonly string[], given: ListArguments, io: CliIo): Promise<number> {
  const known = shippedCatalogue().models.map(({ name, also, parameters, config }) => ({
    name,
    also,
    family: describeConfig(config, name).modelType,
    parameters,
  }));
  const found = known.filter(({ name, also }) => hasAll([name, ...also], words));
  if (given.json) printJson(io, { models: found });
  else {
    const rows = found.map(({ name, family, parameters }) => [
      name,
      family,
      formatCount(parameters),
    ]);
    io.stdout.write(table(['model', 'family', 'parameters'], rows, 'models'));
  }
  return found.length > 0 ? 0 : 1;
}

/** The cards that `--gpu` takes, with those of the configuration. */
export const gpusCommand: CommandModule = {
  define(command, { io, action }) {
    command
      .argument('[words...]', 'only cards that have all of these words')
      .option('--config <file>', 'configuration file (plimsoll.config.json)')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
The key gpus of plimsoll.config.json adds cards. "plimsoll devices" lists those of this machine.

Examples:
  plimsoll gpus
  plimsoll gpus rtx 40
  plimsoll gpus --json | jq '.gpus[].capacityBytes'`,
      )
      .action(action((words: readonly string[], given: ListArguments) => gpus(words, given, io)));
  },
};

async function gpus(words: readonly string[], given: ListArguments, io: CliIo): Promise<number> {
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const known = allGpus(settings.gpus).map(
    ({ name, aliases, vendor, capacityBytes, capability, context }) => ({
      name,
      aliases,
      vendor,
      capacityBytes,
      capability,
      contextBytes: context.bytes,
      contextSource: context.provenance,
    }),
  );
  const found = known.filter(({ name, aliases }) => hasAll([name, ...aliases], words));
  if (given.json) printJson(io, { gpus: found });
  else {
    const rows = found.map(({ name, aliases, capacityBytes }) => [
      name,
      aliases[0] ?? '',
      formatBytes(capacityBytes),
    ]);
    io.stdout.write(table(['card', 'short', 'memory'], rows, 'cards'));
  }
  return found.length > 0 ? 0 : 1;
}

function hasAll(names: readonly string[], words: readonly string[]): boolean {
  return names.some((name) =>
    words.every((word) => name.toLowerCase().includes(word.toLowerCase())),
  );
}

/** Columns as wide as their widest cell; the last one to the right. */
function table(
  heads: readonly string[],
  rows: readonly (readonly string[])[],
  what: string,
): string {
  if (rows.length === 0) return `No ${what} have these words.\n`;
  const widths = heads.map((head, at) =>
    Math.max(head.length, ...rows.map((row) => row[at]?.length ?? 0)),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, at) =>
        at === heads.length - 1 ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0),
      )
      .join('  ');
  return `${[heads, ...rows].map(line).join('\n')}\n\n${rows.length} ${what}\n`;
}
