/** A snapshot's path and a long message fit many times; more is no message of ours. */
const longestLineBytes = 256 * 1024;

/**
 * Cuts a stream of bytes into lines of JSON, in pieces of any size.
 *
 * @example
 * const lines = createJsonLines();
 * lines.take('{"type":"by'); // []
 * lines.take('e"}\n'); // [{ type: 'bye' }]
 */
export interface JsonLines {
  /** The documents that are whole now; `broken` when the sender does not keep to the rules. */
  take(text: string): readonly unknown[] | 'broken';
}

export function createJsonLines(): JsonLines {
  let rest = '';
  return {
    take(text) {
      const pieces = (rest + text).split('\n');
      rest = pieces.pop() ?? '';
      if (rest.length > longestLineBytes) return 'broken';
      const found: unknown[] = [];
      for (const piece of pieces) {
        if (piece.trim() === '') continue;
        try {
          found.push(JSON.parse(piece));
        } catch {
          return 'broken';
        }
      }
      return found;
    },
  };
}
