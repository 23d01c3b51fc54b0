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
