import { keyBindings } from '../../monitor/keys.js';
import { confirmWords } from '../../monitor/signals.js';
import { sortColumns, sortLetters } from '../../monitor/sort-columns.js';
import type { MonitorView } from '../../monitor/view.js';
import { percentWords } from '../../words.js';
import { type Span, span, spansWidth, spread } from '../spans.js';
import { cleanText } from '../text-width.js';
import { wrapText } from '../wrap-text.js';

/** A question has room for its command line, too. */
const maxQuestion = 3;

export interface FootOptions {
  readonly view: MonitorView;
  readonly columns: number;
  readonly loadLinePercent: number;
  readonly version: string;
}

/** The foot of the screen: a question, what the last key did, or the keys that matter most. */
export function footLines({ view, columns, loadLinePercent, version }: FootOptions): Span[][] {
  const { prompt, message, page } = view;
  if (prompt?.kind === 'confirm') {
    const text = wrapText(confirmWords(prompt.signal, prompt.targets), columns);
    return text.slice(0, maxQuestion).map((line) => [span(line, 'red')]);
  }
  if (prompt?.kind === 'sort') {
    const letters = sortColumns.map((column) => `${sortLetters[column].letter} ${column}`);
    return wrapText(`Sort by: ${letters.join(', ')}`, columns).map((line) => [
      span(line, 'yellow'),
    ]);
  }
  if (prompt?.kind === 'filter') {
    const typed = cleanText(view.filter);
    // The end of a long filter is what is being typed.
    const shown = typed.slice(Math.max(0, typed.length - Math.max(8, columns - 40)));
    return [
      [span('Filter: ', 'yellow'), span(`${shown}_`), span('  Enter keeps, Esc drops', 'dim')],
    ];
  }
  if (message !== '') return wrapText(message, columns).map((line) => [span(line, 'yellow')]);
  if (page !== 'main') return [[span('Esc back   Up Down scroll   Ctrl-C leave', 'dim')]];
  const right = `load line ${percentWords(loadLinePercent)}   plimsoll ${cleanText(version)}`;
  return [spread(hints(columns), [span(right, 'dim')], columns)];
}

/** As many as have room, in the order of the table. */
function hints(columns: number): Span[] {
  const line: Span[] = [];
  for (const { shown, short } of keyBindings) {
    if (short === undefined) continue;
    const key = shown.split(' ')[0] ?? shown;
    const next = [span(line.length === 0 ? key : `  ${key}`, 'bold'), span(` ${short}`, 'dim')];
    if (spansWidth(line) + spansWidth(next) > columns) break;
    line.push(...next);
  }
  return line;
}
