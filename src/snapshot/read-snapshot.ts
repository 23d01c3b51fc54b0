import { closeInput, openInput, type SnapshotInput } from './input/snapshot-file.js';
import { PickleMachine } from './pickle/machine.js';
import { PickleWindow } from './pickle/window.js';
import { SnapshotBuilder } from './records/builder.js';
import { finishSnapshot } from './records/finish.js';
import type { Snapshot } from './snapshot.js';

/**
 * Opens what `torch.cuda.memory._dump_snapshot` wrote, plain, .gz or .xz, without running any of it.
 * The file is read once, piece by piece; what is kept are columns of numbers.
 *
 * @example
 * const snapshot = await readSnapshot('snapshot.pickle');
 * snapshot.devices[0]?.segments.length;
 */
export async function readSnapshot(
  path: string,
  /** How far it is, from 0 to 1, after each piece. */
  onShare: (share: number) => void = () => {},
): Promise<Snapshot> {
  const input = await openInput(path);
  try {
    return await readInput(input, onShare);
  } finally {
    await closeInput(input);
  }
}

async function readInput(
  input: SnapshotInput,
  onShare: (share: number) => void,
): Promise<Snapshot> {
  const reader = startSnapshot(input.expectedBytes);
  await input.pour(reader.window, (bytes) => onShare(bytes / Math.max(1, input.fileBytes)));
  return reader.finish();
}

/**
 * A snapshot from bytes at hand.
 *
 * @example
 * parseSnapshot(await readFile('small.pickle')).devices.length;
 */
export function parseSnapshot(bytes: Uint8Array): Snapshot {
  const reader = startSnapshot(bytes.length);
  reader.window.push(bytes);
  return reader.finish();
}

function startSnapshot(expectedBytes: number) {
  const builder = new SnapshotBuilder(expectedBytes);
  const machine = new PickleMachine(builder, expectedBytes);
  const window = new PickleWindow(machine, expectedBytes);
  const finish = (): Snapshot => {
    window.end();
    return finishSnapshot(builder, machine.result ?? 0, machine.protocol);
  };
  return { window, finish };
}
