import { parse } from 'node:path';
import type { Sample } from '../../watch/types.js';

/** What `replay` takes at most: a week at one reading a second has a third of it. */
const maxRows = 2_000_000;

interface Recording {
  readonly kind: 'gpu' | 'host';
  capacityBytes: number;
  readonly rows: number[][];
}

/** Every sample of each device, in the form that `replay` and `--simulate` read. */
export class TraceRecorder {
  readonly #devices = new Map<string, Recording>();

  /** A sample of which the memory is not known has nothing to tell. */
  take({ device, atSeconds, usedBytes, totalBytes, allocator }: Sample): void {
    const capacityBytes = allocator?.limitBytes ?? totalBytes;
    if (usedBytes === 'unknown' || capacityBytes === 'unknown') return;
    const known = this.#devices.get(device.id);
    const recording = known ?? { kind: device.kind, capacityBytes, rows: [] };
    if (known === undefined) this.#devices.set(device.id, recording);
    recording.capacityBytes = Math.max(recording.capacityBytes, capacityBytes);
    if (recording.rows.length >= maxRows) return;
    const before = recording.rows.at(-1)?.[0] ?? -1;
    // Times must rise.
    if (atSeconds <= before) return;
    recording.rows.push(
      allocator === undefined
        ? [atSeconds, usedBytes]
        : [atSeconds, usedBytes, allocator.allocatedBytes, allocator.reservedBytes],
    );
  }

  /**
   * One text for each file: the only GPU, or the only device, has the name that was asked for;
   * several have their ids in their names (`trace.gpu-0.json`).
   */
  files(path: string): { readonly path: string; readonly id: string; readonly text: string }[] {
    const all = [...this.#devices];
    const gpus = all.filter(([, { kind }]) => kind === 'gpu');
    const recorded = gpus.length === 1 ? gpus : all;
    return recorded.map(([id, recording]) => ({
      id,
      path: recorded.length === 1 ? path : pathFor(path, id),
      text: textOf(recording),
    }));
  }
}

function pathFor(path: string, id: string): string {
  const { dir, name, ext } = parse(path);
  const file = `${name}.${id.replaceAll(/[^\w]+/g, '-')}${ext}`;
  return dir === '' ? file : `${dir}/${file}`;
}

function textOf({ capacityBytes, rows }: Recording): string {
  // An allocator that reported in some samples only would leave holes.
  const whole = rows.every((row) => row.length === 4);
  const columns = ['seconds', 'device_used', ...(whole ? ['allocated', 'reserved'] : [])];
  const lines = rows.map((row) => JSON.stringify(row.slice(0, columns.length)));
  return `{"capacity":${capacityBytes},"columns":${JSON.stringify(columns)},"rows":[\n${lines.join(',\n')}\n]}\n`;
}
