import { Failure } from '../../failure.js';
import { checkArguments, list, string } from '../../units/arguments.js';
import { nearest } from '../../units/words.js';
import {
  assumedContext,
  type Gpu,
  type GpuVendor,
  knownGpus,
  workspaceBytesOf,
} from './gpu-table.js';

/** A card as a person describes it in the configuration; what is left out is assumed. */
export interface GpuEntry {
  readonly name: string;
  readonly aliases?: readonly string[] | undefined;
  readonly vendor?: GpuVendor | undefined;
  readonly capacityBytes: number;
  readonly capability?: string | undefined;
  /** Measured by the person who wrote it. */
  readonly contextBytes?: number | undefined;
  readonly workspaceBytes?: number | undefined;
}

/** The longest real name has some 40 letters. */
const longestName = 100;
/** How many cards an error names. */
const shownNames = 6;
/** For those who wrote something else altogether. */
const someNames = 'Known are h200, h100, a100-80gb, l40s, 4090, t4 and more. ';

/**
 * The card of that name: as the driver reports it, or short (`h100`, `4090`, `a100-40gb`). Cards of
 * the configuration come first.
 *
 * @example
 * findGpu('h200').capacityBytes; // 150754820096
 * findGpu('ours', [{ name: 'Ours', capacityBytes: 17179869184 }]).context.provenance; // 'estimated'
 */
export function findGpu(name: string, configured: readonly GpuEntry[] = []): Gpu {
  checkArguments('findGpu', { name, configured }, { name: string, configured: list });
  const named = gpusNamed(name, configured);
  const [only, ...others] = named;
  if (only === undefined) throw unknownGpu(name, allGpus(configured));
  if (others.length > 0) throw ambiguousGpu(name, named);
  return only;
}

/**
 * Returns the bytes that a bare process takes of a card; the usual value for an unknown card.
 *
 * @example
 * contextBytesOf('NVIDIA H200'); // 794820608
 */
export function contextBytesOf(name: string, configured: readonly GpuEntry[] = []): number {
  const [only, ...others] = gpusNamed(name, configured);
  const context = others.length === 0 ? only?.context : undefined;
  return (context ?? assumedContext).bytes;
}

/** All cards that a name may mean; one where it is a card's own. */
export function gpusNamed(name: string, configured: readonly GpuEntry[]): readonly Gpu[] {
  const wanted = normal(name.slice(0, longestName));
  const own = configured.map(fromEntry);
  for (const table of [own, knownGpus]) {
    const exact = table.find((gpu) => namesOf(gpu).includes(wanted));
    if (exact) return [exact];
  }
  if (wanted === '') return [];
  return [...own, ...knownGpus].filter((gpu) => namesOf(gpu).some(startsWith(wanted)));
}

/** All cards that `findGpu` knows, those of the configuration first. */
export function allGpus(configured: readonly GpuEntry[] = []): readonly Gpu[] {
  return [...configured.map(fromEntry), ...knownGpus];
}

function fromEntry(entry: GpuEntry): Gpu {
  const { name, aliases = [], vendor = 'nvidia', capacityBytes, capability } = entry;
  const { contextBytes, workspaceBytes = workspaceBytesOf(vendor, capability) } = entry;
  const context =
    contextBytes === undefined
      ? assumedContext
      : {
          bytes: contextBytes,
          lowBytes: contextBytes,
          highBytes: contextBytes,
          provenance: 'measured' as const,
        };
  return {
    name,
    aliases,
    vendor,
    capacityBytes,
    capability: capability ?? 'unknown',
    context,
    workspaceBytes,
  };
}

function namesOf(gpu: Gpu): readonly string[] {
  return [gpu.name, ...gpu.aliases].map(normal);
}

/** `NVIDIA GeForce RTX 4090` and `rtx-4090` are the same. */
function normal(name: string): string {
  return name
    .toLowerCase()
    .replaceAll(/\b(nvidia|geforce|tesla|amd|instinct)\b/g, '')
    .replaceAll(/[^a-z0-9]/g, '');
}

function startsWith(beginning: string): (text: string) => boolean {
  return (text) => text.startsWith(beginning);
}

function unknownGpu(name: string, all: readonly Gpu[]): Failure {
  const wanted = normal(name.slice(0, longestName));
  const byName = new Map(all.flatMap((gpu) => namesOf(gpu).map((one) => [one, gpu.name] as const)));
  const meant = byName.get(nearest(wanted, [...byName.keys()]) ?? '');
  return new Failure({
    kind: 'input',
    code: 'unknown-gpu',
    fact: `There is no GPU "${name.slice(0, longestName)}" in the table.`,
    next: `${meant === undefined ? someNames : `Did you mean "${meant}"? `}Add others with the key gpus of plimsoll.config.json.`,
    field: 'gpu',
  });
}

function ambiguousGpu(name: string, near: readonly Gpu[]): Failure {
  const shown = near.slice(0, shownNames).map((gpu) => `"${gpu.name}"`);
  const more = near.length > shownNames ? `, and ${near.length - shownNames} more` : '';
  return new Failure({
    kind: 'input',
    code: 'ambiguous-gpu',
    fact: `"${name}" may be ${shown.join(', ')}${more}.`,
    next: 'Name one of them.',
    field: 'gpu',
  });
}
