/** What tells variants of one model apart, and changes nothing about its sizes. */
const variantWords = new Set(['instruct', 'chat', 'it', 'base', 'hf', 'pt', 'sft', 'dpo']);

/**
 * A name of a model without its organization, case and punctuation, so that names match as people
 * write them.
 *
 * @example
 * nameKey('meta-llama/Meta-Llama-3-8B') === nameKey('llama3:8b'); // true
 */
export function nameKey(name: string): string {
  const own = name.slice(name.lastIndexOf('/') + 1).toLowerCase();
  // A point between digits counts: opt-1.3b is not opt-13b.
  return own.replaceAll(/(?<!\d)\.|\.(?!\d)|[^a-z0-9.]/g, '').replace(/^meta(?=llama)/, '');
}

/**
 * The same without the words that name a variant at its end.
 *
 * @example
 * plainKey('Qwen2.5-7B-Instruct'); // 'qwen2.57b'
 */
export function plainKey(name: string): string {
  const words = name.split(/[-_\s]+/);
  let last = words.length;
  while (last > 1 && variantWords.has((words[last - 1] ?? '').toLowerCase())) last -= 1;
  return nameKey(words.slice(0, last).join('-'));
}
