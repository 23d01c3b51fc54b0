const steps = [
  [1e12, 'trillion'],
  [1e9, 'billion'],
  [1e6, 'million'],
] as const;

/**
 * A large count for people.
 *
 * @example
 * formatCount(8_030_261_248); // '8.03 billion'
 */
export function formatCount(count: number): string {
  const step = steps.find(([size]) => count >= size);
  if (step === undefined) return String(count);
  const [size, word] = step;
  return `${Number((count / size).toPrecision(3))} ${word}`;
}

/**
 * The same words, ready to begin a sentence.
 *
 * @example
 * capitalized('out of memory'); // 'Out of memory'
 */
export function capitalized(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * A command as one would type it.
 *
 * @example
 * shellWords(['sh', '-c', 'echo hi']); // "sh -c 'echo hi'"
 */
export function shellWords(command: readonly string[]): string {
  return command
    .map((word) => (/^[\w@%+=:,./{}-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`))
    .join(' ');
}

/**
 * The word a person most likely meant, or nothing when none is near.
 *
 * @example
 * nearest('intervalSecond', ['intervalSeconds', 'devices']); // 'intervalSeconds'
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  let best: string | undefined;
  // Farther than a third of its letters is another word, not a slip.
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** Insertions, deletions, replacements and swaps of neighbours, each counted as one. */
function editDistance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const same = from[row - 1] === to[column - 1];
      let cost = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
      );
      const swapped =
        row > 1 &&
        column > 1 &&
        from[row - 1] === to[column - 2] &&
        from[row - 2] === to[column - 1];
      if (swapped) cost = Math.min(cost, (beforeLast[column - 2] ?? 0) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return last[to.length] ?? 0;
}
