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
