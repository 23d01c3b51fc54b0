import type { Advice } from '../../optimize/advice.js';
import type { Optimization } from '../../optimize/document.js';
import type { TrainingAnswer } from '../../optimize/training-answer.js';
import { formatBytes } from '../../units/bytes.js';
import { noteLines } from '../text/note-lines.js';
import { paintLine, type Span, span, type TextStyle } from '../text/spans.js';
import { cleanText } from '../text/text-width.js';
import { wrapText } from '../text/wrap-text.js';
import { changeLines, headline, savingWords, trainingRows } from './words.js';

const indent = '   ';

/**
 * What to do, for people: the answer, the devices, then each advice with its commands and what it saves.
 *
 * @example
 * optimizeText(found, { columns: 80, style: { colour: false, unicode: true } });
 */
export function optimizeText(
  found: Optimization,
  { columns, style }: { readonly columns: number; readonly style: TextStyle },
): string {
  const lines: Span[][] = [
    ...wrapText(headline(found), columns).map((line) => [span(line, 'bold')]),
    ...found.devices.map(({ id, name, usedBytes, totalBytes, provenance }) => [
      span(
        cleanText(
          `  ${id}  ${name}: ${formatBytes(usedBytes)} of ${formatBytes(totalBytes)} in use, ${provenance}`,
        ),
        'dim',
      ),
    ]),
    ...(found.training === undefined ? [] : trainingLines(found.training)),
    ...found.advice.flatMap((advice, index) => adviceLines(advice, index + 1, columns)),
    ...fileLines(found),
    ...(found.notes.length === 0
      ? []
      : [
          [],
          ...found.notes
            .flatMap((note) => noteLines(note, columns))
            .map((line) => [span(line, 'dim')]),
        ]),
  ];
  return lines.map((line) => paintLine(line, Number.POSITIVE_INFINITY, style)).join('\n');
}

/** A command is never cut or wrapped: it is to be copied. */
function adviceLines(advice: Advice, number: number, columns: number): Span[][] {
  const { fact, steps, saves } = advice;
  const mark = `${number}.`.padEnd(indent.length);
  return [
    [],
    ...wrapText(fact, columns, mark, indent).map((line) => [span(line)]),
    ...steps.map((step) => [span(indent), span(cleanText(step), 'cyan')]),
    [span(indent), span('saves: ', 'dim'), span(savingWords(saves), savingPaint(advice))],
  ];
}

function savingPaint({ saves }: Advice): 'green' | 'dim' {
  return saves.kind === 'unknown' ? 'dim' : 'green';
}

function trainingLines(training: TrainingAnswer): Span[][] {
  const { paste, loading } = training;
  return [
    [],
    [span('Train with:', 'bold')],
    ...trainingRows(training).map(([name, value]) => [
      span(`  ${name.padEnd(14)}`),
      span(value, 'bold'),
    ]),
    ...loading.reasons.map((reason) => [span(`  ${reason}`, 'dim')]),
    ...block('In a terminal:', paste.shell),
    ...block('In a loop of your own:', paste.python),
    ...(paste.trainer === undefined
      ? []
      : block('With the Trainer of transformers:', paste.trainer)),
  ];
}

function block(title: string, text: string): Span[][] {
  const lines = text.split('\n').map((line) => [span('  '), span(cleanText(line), 'cyan')]);
  return [[], [span(title, 'bold')], ...lines];
}

function fileLines(found: Optimization): Span[][] {
  const [title, ...files] = changeLines(found);
  if (title === undefined) return [];
  return [[], [span(title)], ...files.map((line) => [span(`  ${cleanText(line)}`)])];
}
