import { Failure } from '../failure.js';
import { isKnown } from '../units/known.js';
import type { RunSettings } from './types.js';

/** Words in braces that a command may contain; each is also a variable of the program's environment. */
export const placeholders = [
  'batch_size',
  'accumulation',
  'checkpointing',
  'precision',
  'offload',
  'device',
  'torch_device',
  'attempt',
] as const;
export type Placeholder = (typeof placeholders)[number];

const inBraces = new RegExp(String.raw`\{(${placeholders.join('|')})\}`, 'g');

/** The placeholders that a command has: what it has, its program can be told. */
export function placeholdersOf(command: readonly string[]): ReadonlySet<Placeholder> {
  const found = new Set<string>();
  for (const word of command) for (const [, name = ''] of word.matchAll(inBraces)) found.add(name);
  return new Set(placeholders.filter((name) => found.has(name)));
}

/**
 * The command with its placeholders filled in. Other braces stay as they are.
 *
 * @example
 * fillCommand(['train', '--batch={batch_size}'], settings, 1); // ['train', '--batch=32']
 */
export function fillCommand(
  command: readonly string[],
  settings: RunSettings,
  attempt: number,
  /** It sees no other device, so that its first one is the first of all. */
  isPinned = false,
): readonly string[] {
  const values = valuesOf(settings, attempt, isPinned);
  return command.map((word) =>
    word.replaceAll(inBraces, (_, name: Placeholder) => {
      const value = values[name];
      if (value !== undefined) return value;
      throw new Failure({
        kind: 'input',
        code: 'unknown-batch-size',
        fact: `The command has {${name}}, and no --${name.replaceAll('_', '-')} was given.`,
        next: `Add it, such as --${name.replaceAll('_', '-')} 32.`,
      });
    }),
  );
}

/** The same values as variables: `PLIMSOLL_BATCH_SIZE` and so on. */
export function settingsVariables(
  settings: RunSettings,
  attempt: number,
  isPinned = false,
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(valuesOf(settings, attempt, isPinned)).flatMap(([name, value]) =>
      value === undefined ? [] : [[`PLIMSOLL_${name.toUpperCase()}`, value]],
    ),
  );
}

function valuesOf(
  settings: RunSettings,
  attempt: number,
  isPinned: boolean,
): Readonly<Record<Placeholder, string | undefined>> {
  const { batch_size: batch, device } = settings;
  return {
    batch_size: isKnown(batch) ? String(batch) : undefined,
    accumulation: String(settings.accumulation),
    checkpointing: String(settings.checkpointing),
    precision: settings.precision,
    offload: String(settings.offload),
    device,
    torch_device: torchDevice(device, isPinned),
    attempt: String(attempt),
  };
}

/** As PyTorch calls it, which counts only what it sees. */
function torchDevice(device: string, isPinned: boolean): string {
  const index = /^gpu:(\d+)/.exec(device)?.[1];
  return index === undefined ? 'cpu' : `cuda:${isPinned ? 0 : index}`;
}
