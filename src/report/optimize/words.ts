import type { Saving } from '../../optimize/advice.js';
import type { Optimization } from '../../optimize/document.js';
import type { TrainingAnswer } from '../../optimize/training-answer.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';

/** `12.0 GiB of gpu:0 (9 %), measured`; `29 to 52 % of the time, measured on an H200`. */
export function savingWords(saves: Saving): string {
  if (saves.kind === 'unknown') return 'not known beforehand';
  if (saves.kind === 'time') {
    const low = Math.round(saves.lowShare * 100);
    const high = Math.round(saves.highShare * 100);
    const range = low === 0 ? `up to ${high}` : `${low} to ${high}`;
    return `${range} % of the time, ${saves.source} (${saves.where})`;
  }
  const share = isKnown(saves.share) ? ` (${Math.round(saves.share * 100)} %)` : '';
  const most = saves.atMost ? 'up to ' : '';
  return `${most}${formatBytes(saves.bytes)} of ${saves.device}${share}, ${saves.source}`;
}

export function headline({ advice, training, watchedSeconds }: Optimization): string {
  const what = training === undefined ? 'thing to do' : 'way to save';
  const found =
    advice.length === 0 ? 'Nothing to improve was found.' : `${counted(advice.length, what)}.`;
  const known = advice.filter(({ saves }) => saves.kind !== 'unknown').length;
  const order = known > 1 ? ' What saves most comes first.' : '';
  const watched = watchedSeconds > 0 ? ` Watched for ${watchedSeconds} s.` : '';
  const fits = training === undefined ? '' : `${trainingHeadline(training)} `;
  return `${fits}${found}${order}${watched}`;
}

/** `2 things to do`, `1 way to save`. */
function counted(many: number, what: string): string {
  return many === 1 ? `1 ${what}` : `${many} ${what.replace(' ', 's ')}`;
}

function trainingHeadline(training: TrainingAnswer): string {
  const { fits, surely, peakBytes, capacityBytes, of, settings } = training;
  const needs = `it needs ${formatBytes(peakBytes)} of ${formatBytes(capacityBytes)}, estimated.`;
  if (!fits) return `${of} does not fit: ${needs}`;
  const how = settings.batch === 'unknown' ? 'as it is' : 'with these settings';
  return surely ? `${of} fits ${how}: ${needs}` : `${of} may fit ${how}: ${needs}`;
}

/** Each setting that is known and in use, with its value. */
export function trainingRows({
  settings,
  loading,
}: TrainingAnswer): readonly (readonly [name: string, value: string])[] {
  const rows = Object.entries(settings).flatMap(([name, value]): [string, string][] => {
    const isOne = settings.gpus === 1 && (name === 'gpus' || name === 'zero');
    if (value === 'unknown' || value === 'none' || isOne) return [];
    return [[name, typeof value === 'boolean' ? yesNo(value) : String(value)]];
  });
  return [
    ...rows,
    ['workers', `at most ${loading.workers}`],
    ['pin memory', yesNo(loading.pinMemory)],
    ...(loading.workers > 0 ? ([['prefetch', String(loading.prefetch)]] as const) : []),
  ];
}

function yesNo(value: boolean): string {
  return value ? 'yes' : 'no';
}

/** What --apply wrote, or would. */
export function changeLines({ changes, applied }: Optimization): readonly string[] {
  if (changes.length === 0) return [];
  const written = changes.map(({ path, what }) => `${path}: ${what}`);
  return applied
    ? ['Written:', ...written, '"plimsoll optimize --undo" puts the files back.']
    : ['With --apply it writes:', ...written];
}
