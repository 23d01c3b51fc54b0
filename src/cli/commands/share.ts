import { keepPeak, keptPeaks, measuredFolder } from '../../engine/measured-peaks.js';
import { shareOf } from '../../engine/ray/request.js';
import { Failure } from '../../failure.js';
import { homeFolder } from '../../files/folders.js';
import { correctEstimate } from '../../jobs/corrections.js';
import { systemClock } from '../../time/clock.js';
import { formatBytes } from '../../units/bytes.js';
import { type CliIo, type CommandModule, printJson } from '../io.js';
import { badArgument, sizeArgument } from '../options/arguments.js';

interface ShareArguments {
  readonly key: string;
  readonly capacity?: number;
  readonly estimated?: number;
  readonly peak?: number;
  readonly outOfMemory?: boolean;
}

/** Asked by `plimsoll.ray` in Python: the share of a card that a workload needs; not for people. */
export const shareCommand: CommandModule = {
  define(command, context) {
    command
      .requiredOption(
        '--key <key>',
        'the same for workloads that need the same memory',
        keyArgument,
      )
      .option('--capacity <size>', 'of the card', sizeArgument('--capacity'))
      .option('--estimated <size>', 'without a measured run', sizeArgument('--estimated'))
      .option('--peak <size>', 'keeps what a run measured', sizeArgument('--peak'))
      .option('--out-of-memory', 'that run needed more')
      .option('--json', 'print JSON, as it always does')
      .action(context.action(async (given: ShareArguments) => share(given, context.io)));
  },
};

/** It becomes the name of a folder. */
function keyArgument(text: string): string {
  if (/^[\w-]{1,100}$/.test(text)) return text;
  throw badArgument('--key', text, 'It takes up to 100 letters, digits and dashes.');
}

function share(given: ShareArguments, io: CliIo): number {
  const { key, capacity, estimated, peak } = given;
  const folder = measuredFolder(homeFolder(io.environment));
  if (peak !== undefined) {
    const askedBytes = given.outOfMemory === true ? 'unknown' : 'none';
    keepPeak(folder, key, { peakBytes: peak, askedBytes, seconds: 0 }, systemClock.epochMs());
  }
  const need = correctEstimate(estimated ?? 'unknown', keptPeaks(folder, key));
  if (capacity === undefined || need === undefined) {
    printJson(io, { needBytes: need?.bytes ?? 'unknown', basis: need?.basis ?? 'unknown' });
    return 0;
  }
  const { bytes, basis } = need;
  if (bytes > capacity) throw doesNotFit(bytes, capacity);
  printJson(io, { numGpus: shareOf(bytes, capacity), needBytes: bytes, basis });
  return 0;
}

function doesNotFit(bytes: number, capacity: number): Failure {
  return new Failure({
    kind: 'job',
    code: 'does-not-fit',
    fact: `It needs ${formatBytes(bytes)}, and the card has ${formatBytes(capacity)}.`,
    next: 'Use a smaller batch, a larger card, or several GPUs with a sharded program.',
  });
}
