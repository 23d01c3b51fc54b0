import { keyBindings, mouseUses } from '../../monitor/keys.js';
import { sortColumns, sortLetters } from '../../monitor/sort-columns.js';
import { type Span, span } from '../spans.js';
import { fitText, textWidth } from '../text-width.js';
import { wrapText } from '../wrap-text.js';

interface Entry {
  readonly shown: string;
  readonly does: string;
}

const gap = 2;

/** Every key and what it does, in as many columns as have room; from the table of keys itself. */
export function helpLines(columns: number): Span[][] {
  const letters = sortColumns.map((column) => `${sortLetters[column].letter} ${column}`).join(', ');
  const entries: Entry[] = [
    ...keyBindings,
    ...mouseUses,
    { shown: 'after o', does: `${letters}; a capital letter: the other way round` },
  ];
  const across = Math.max(1, Math.min(3, Math.floor(columns / 66)));
  const width = Math.floor((columns - gap * (across - 1)) / across);
  const key = Math.min(24, Math.max(...entries.map(({ shown }) => textWidth(shown)))) + 2;
  const blocks = entries.map((entry) => entryLines(entry, key, width));
  const share = Math.ceil(blocks.length / across);
  const parts = Array.from({ length: across }, (_, index) =>
    blocks.slice(index * share, (index + 1) * share).flat(),
  );
  const height = Math.max(...parts.map((part) => part.length));
  return Array.from({ length: height }, (_, row) =>
    parts.flatMap((part, index) => {
      const [shown = '', does = ''] = part[row] ?? [];
      const wide = index < across - 1 ? fitText(does, width - key + gap) : does;
      return [span(shown.padEnd(key), 'bold'), span(wide)];
    }),
  );
}

function entryLines({ shown, does }: Entry, key: number, width: number): [string, string][] {
  return wrapText(does, Math.max(20, width - key)).map((line, index) => [
    index === 0 ? shown : '',
    line,
  ]);
}
