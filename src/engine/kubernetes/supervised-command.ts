import { placeholdersOf } from '../../run/placeholders.js';
import { isKnown } from '../../units/known.js';
import type { ClusterOrder } from '../cluster.js';

/** Whether the program runs under `plimsoll run`: where the image has it, always, or never. */
export const supervisions = ['auto', 'always', 'never'] as const;
export type Supervision = (typeof supervisions)[number];

/** The command of a container, as `asWritten` writes it. */
export function supervisedCommand(
  { command, batch, gpus }: Pick<ClusterOrder, 'command' | 'batch' | 'gpus'>,
  supervision: Supervision,
): readonly string[] {
  const options = [
    ...(isKnown(batch) ? ['--batch-size', String(batch)] : []),
    ...(gpus === 0 ? ['--device', 'host'] : []),
  ];
  const run = ['plimsoll', 'run', ...options, '--'];
  if (supervision === 'never') return command.map(asWritten);
  if (supervision === 'always') return [...run, ...command].map(asWritten);
  const alone =
    placeholdersOf(command).size === 0
      ? 'exec "$@"'
      : 'echo "plimsoll is not in this image; only it fills the placeholders of the command." >&2; exit 127';
  const script = `command -v plimsoll >/dev/null 2>&1 && exec ${run.join(' ')} "$@"; ${alone}`;
  return ['sh', '-c', script, 'sh', ...command].map(asWritten);
}

/**
 * A text of a manifest that Kubernetes leaves as `text` is: it reads `$$` as one dollar sign, and
 * replaces `$(NAME)`, so each dollar sign is written twice.
 */
export function asWritten(text: string): string {
  return text.replaceAll('$', () => '$$');
}
