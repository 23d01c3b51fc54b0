/**
 * The same words, ready to begin a sentence.
 *
 * @example
 * capitalized('out of memory'); // 'Out of memory'
 */
export function capitalized(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
