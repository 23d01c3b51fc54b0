/** A command line taken apart, or what is wrong with it. */
export type SplitCommand = { readonly words: readonly string[] } | { readonly problem: string };

/**
 * Splits a line into the program and its arguments, as a shell does with quotes and backslashes.
 * Nothing is replaced or run: what a shell would do beyond that, a job does with `bash -c '...'`.
 *
 * @example
 * splitCommand('python train.py --name "my run"'); // { words: ['python', 'train.py', '--name', 'my run'] }
 */
export function splitCommand(line: string): SplitCommand {
  const words: string[] = [];
  let word: string | undefined;
  let quote: '"' | "'" | undefined;
  for (let at = 0; at < line.length; at++) {
    const character = line.charAt(at);
    if (quote !== undefined) {
      if (character === quote) quote = undefined;
      else if (character === '\\' && quote === '"' && /["\\$`]/.test(line.charAt(at + 1))) {
        word += line.charAt(++at);
      } else word += character;
    } else if (character === '"' || character === "'") {
      quote = character;
      word ??= '';
    } else if (character === '\\') {
      at += 1;
      // A backslash before the end of a line joins it with the next.
      if (line.charAt(at) !== '\n') word = (word ?? '') + line.charAt(at);
    } else if (/\s/.test(character)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? '') + character;
  }
  if (quote !== undefined) return { problem: `A quote (${quote}) is not closed.` };
  if (word !== undefined) words.push(word);
  return words.length === 0 ? { problem: 'Type what to run.' } : { words };
}

/** A command as it could be typed. */
export function joinCommand(words: readonly string[]): string {
  return words
    .map((word) => (/^[\w@%+=:,./{}-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`))
    .join(' ');
}
