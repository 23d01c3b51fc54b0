/** Longer lines are the model's own. */
const longestLine = 1000;

/** The current work in words, and its progress from 0 to 1 if it is known. */
export interface TraceProgress {
  readonly words: string;
  readonly share?: number;
}

/** Descriptions of a traced program's phases, by name. */
const programPhases: Readonly<Record<string, string>> = {
  building: 'The program builds its model',
  'first steps': 'The program makes its first steps',
  'steady steps': 'The program makes further steps',
  evaluation: 'The program evaluates',
  saving: 'The program saves',
  generating: 'The program generates',
};

/**
 * Reads a line of Python's progress on stderr; undefined for any other line.
 *
 * @example
 * progressOf('{"progress":{"phase":"step","step":2,"of":4}}'); // { words: 'Tracing step 2 of 4', share: 0.25 }
 */
export function progressOf(line: string): TraceProgress | undefined {
  if (line.length > longestLine || !line.startsWith('{"progress":')) return undefined;
  let reported: unknown;
  try {
    reported = Reflect.get(Object(JSON.parse(line)), 'progress');
  } catch {
    return undefined;
  }
  const field = (name: string): unknown => Reflect.get(Object(reported), name);
  switch (field('phase')) {
    case 'import':
      return { words: 'Loading PyTorch' };
    case 'build':
      return { words: 'Building the model without its weights' };
    case 'step': {
      const [step, of] = [field('step'), field('of')];
      if (typeof step !== 'number' || typeof of !== 'number') return { words: 'Tracing' };
      return { words: `Tracing step ${step} of ${of}`, share: (step - 1) / of };
    }
    case 'files': {
      const [file, of] = [field('step'), field('of')];
      if (typeof file !== 'number' || typeof of !== 'number') return { words: 'Reading files' };
      return { words: `Reading file ${file} of ${of}`, share: (file - 1) / of };
    }
    case 'program':
      return { words: programPhases[String(field('doing'))] ?? 'The program runs' };
    default:
      return { words: 'Tracing' };
  }
}

/**
 * Takes text as it comes, and hands out its lines: those that tell of progress to one side, the rest
 * to the other.
 */
export function splitProgress(
  onProgress: (words: string, share?: number) => void,
  onOther: (text: string) => void,
): (text: string) => void {
  let rest = '';
  return (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const found = progressOf(line);
      if (found === undefined) onOther(`${line}\n`);
      else onProgress(found.words, found.share);
    }
    if (rest.length <= longestLine && '{"progress":'.startsWith(rest.slice(0, 12))) return;
    onOther(rest);
    rest = '';
  };
}
