/** Longer lines are the model's own. */
const longestLine = 1000;

/**
 * What Python reports of its progress on stderr, in words; undefined for any other line.
 *
 * @example
 * progressWords('{"progress":{"phase":"step","step":1,"of":3}}'); // 'Tracing step 1 of 3'
 */
export function progressWords(line: string): string | undefined {
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
      return 'Loading PyTorch';
    case 'build':
      return 'Building the model without its weights';
    case 'step': {
      const [step, of] = [field('step'), field('of')];
      if (typeof step !== 'number' || typeof of !== 'number') return 'Tracing';
      return `Tracing step ${step} of ${of}`;
    }
    default:
      return 'Tracing';
  }
}

/**
 * Takes text as it comes, and hands out its lines: those that tell of progress to one side, the rest
 * to the other.
 */
export function splitProgress(
  onProgress: (words: string) => void,
  onOther: (text: string) => void,
): (text: string) => void {
  let rest = '';
  return (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const words = progressWords(line);
      if (words === undefined) onOther(`${line}\n`);
      else onProgress(words);
    }
    if (rest.length <= longestLine && '{"progress":'.startsWith(rest.slice(0, 12))) return;
    onOther(rest);
    rest = '';
  };
}
