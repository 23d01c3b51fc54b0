import { estimateStyle, planStyle } from '../../report/html/estimate-sections.js';
import { emblem, html, Markup, pageHead, unbroken } from '../../report/html/page-head.js';
import { paintLine, type Span, span, type TextStyle } from '../../report/text/spans.js';
import { cleanText, noteLines, wrapText } from '../../report/text/text-width.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import type { Advice, Saving } from './advice.js';
import type { PlannedChange } from './apply.js';
import type { SeenDevice } from './device-advice.js';
import type { Check } from './doctor.js';
import type { TrainingAnswer } from './training-answer.js';

export const optimizeModes = ['quick', 'training', 'full'] as const;
export type OptimizeMode = (typeof optimizeModes)[number];

/** What `plimsoll optimize` found, before it is told. */
export interface Optimization {
  readonly mode: OptimizeMode;
  /** How long the machine was watched; 0 where it was not. */
  readonly watchedSeconds: number;
  readonly devices: readonly SeenDevice[];
  /** In the order of what they save. */
  readonly advice: readonly Advice[];
  readonly training?: TrainingAnswer | undefined;
  readonly checks?: readonly Check[] | undefined;
  /** What --apply writes. */
  readonly changes: readonly PlannedChange[];
  readonly applied: boolean;
  readonly notes: readonly string[];
}

/** The same as JSON. */
export function optimizeDocument(found: Optimization): object {
  const { devices, changes, applied, training, checks, ...rest } = found;
  return {
    ...rest,
    devices: devices.map(deviceDocument),
    ...(training !== undefined && { training }),
    ...(checks !== undefined && { checks }),
    applied,
    changes: changes.map(({ path, what }) => ({ path, what })),
  };
}

function deviceDocument({ processLeaks, ...device }: SeenDevice): object {
  return Object.assign({}, device, {
    growing: Array.from(processLeaks, ([pid, leak]) => Object.assign({ pid }, leak)),
  });
}

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

/** `12.0 GiB of gpu:0 (9 %), measured`; `29 to 52 % of the time, measured on an H200`. */
function savingWords(saves: Saving): string {
  if (saves.kind === 'unknown') return 'not known beforehand';
  if (saves.kind === 'time') {
    const low = Math.round(saves.lowShare * 100);
    const high = Math.round(saves.highShare * 100);
    const range = low === 0 ? `up to ${high}` : `${low} to ${high}`;
    return `${range} % of the time, ${saves.source} (${saves.where})`;
  }
  const share = isKnown(saves.share) ? ` (${Math.round(saves.share * 100)} %)` : '';
  const most = saves.atMost ? 'up to ' : '';
  return `${most}${formatBytes(saves.bytes)} of ${saves.device}${share}, ${saves.source}`;
}

function headline({ advice, training, watchedSeconds }: Optimization): string {
  const what = training === undefined ? 'thing to do' : 'way to save';
  const found =
    advice.length === 0 ? 'Nothing to improve was found.' : `${counted(advice.length, what)}.`;
  const known = advice.filter(({ saves }) => saves.kind !== 'unknown').length;
  const order = known > 1 ? ' What saves most comes first.' : '';
  const watched = watchedSeconds > 0 ? ` Watched for ${watchedSeconds} s.` : '';
  const fits = training === undefined ? '' : `${trainingHeadline(training)} `;
  return `${fits}${found}${order}${watched}`;
}

/** `2 things to do`, `1 way to save`. */
function counted(many: number, what: string): string {
  return many === 1 ? `1 ${what}` : `${many} ${what.replace(' ', 's ')}`;
}

function trainingHeadline(training: TrainingAnswer): string {
  const { fits, surely, peakBytes, capacityBytes, of, settings } = training;
  const needs = `it needs ${formatBytes(peakBytes)} of ${formatBytes(capacityBytes)}, estimated.`;
  if (!fits) return `${of} does not fit: ${needs}`;
  const how = settings.batch === 'unknown' ? 'as it is' : 'with these settings';
  return surely ? `${of} fits ${how}: ${needs}` : `${of} may fit ${how}: ${needs}`;
}

/** Each setting that is known and in use, with its value. */
function trainingRows({
  settings,
  loading,
}: TrainingAnswer): readonly (readonly [name: string, value: string])[] {
  const rows = Object.entries(settings).flatMap(([name, value]): [string, string][] => {
    const isOne = settings.gpus === 1 && (name === 'gpus' || name === 'zero');
    if (value === 'unknown' || value === 'none' || isOne) return [];
    return [[name, typeof value === 'boolean' ? yesNo(value) : String(value)]];
  });
  return [
    ...rows,
    ['workers', `at most ${loading.workers}`],
    ['pin memory', yesNo(loading.pinMemory)],
    ...(loading.workers > 0 ? ([['prefetch', String(loading.prefetch)]] as const) : []),
  ];
}

function yesNo(value: boolean): string {
  return value ? 'yes' : 'no';
}

/** What --apply wrote, or would. */
function changeLines({ changes, applied }: Optimization): readonly string[] {
  if (changes.length === 0) return [];
  const written = changes.map(({ path, what }) => `${path}: ${what}`);
  return applied
    ? ['Written:', ...written, '"plimsoll optimize --undo" puts the files back.']
    : ['With --apply it writes:', ...written];
}

/**
 * What to do as one HTML page that stands alone: no file beside it, nothing loaded, no script.
 *
 * @example
 * await writeFile('optimize.html', renderOptimizeHtml(found, '0.1.0'));
 */
export function renderOptimizeHtml(found: Optimization, version: string): string {
  const { mode, devices, advice, training, notes } = found;
  return html`${pageHead({ title: `Memory, ${mode}`, version, style: estimateStyle + planStyle })}
<body>
<main>
<header>
<div class="masthead">${emblem()}<div><h1>What to do about memory</h1>
<p class="soft">plimsoll optimize --mode ${mode}</p></div></div>
<p class="lede">${unbroken(headline(found))}</p>
<dl class="facts">${devices.map(
    ({ id, name, usedBytes, totalBytes, provenance }) =>
      html`<div><dt>${id}, ${name}</dt><dd>${unbroken(`${formatBytes(usedBytes)} of ${formatBytes(totalBytes)}`)} <small>${provenance}</small></dd></div>`,
  )}</dl>
</header>
${training && trainingSection(training)}
<section aria-labelledby="advice"><h2 id="advice">What to do, and what it saves</h2>
${advice.length === 0 ? html`<p class="soft">Nothing to improve was found.</p>` : html`<ol class="findings">${advice.map(adviceItem)}</ol>`}</section>
${listSection('changes', 'Files', changeLines(found))}
${listSection('notes', 'What it rests on', notes)}
<footer class="soft">
<p>Each figure says whether it was <b>measured</b>, <b>simulated</b> or <b>estimated</b>. GiB are 1024<sup>3</sup> bytes. Made by plimsoll ${version}.</p>
</footer>
</main>
</body>
</html>
`.text;
}

function adviceItem({ fact, steps, saves }: Advice): Markup {
  return html`<li>${unbroken(fact)}${code(steps)}<p class="saves">${unbroken(savingWords(saves))}</p></li>`;
}

function trainingSection(training: TrainingAnswer): Markup {
  const { paste } = training;
  return html`<section aria-labelledby="training"><h2 id="training">Train with</h2>
<dl class="grid">${trainingRows(training).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
${code(paste.shell.split('\n'))}${code(paste.python.split('\n'))}${paste.trainer !== undefined && code(paste.trainer.split('\n'))}</section>`;
}

function code(lines: readonly string[]): Markup {
  return html`<pre><code>${lines.map((line) => [line, new Markup('\n')])}</code></pre>`;
}

function listSection(id: string, title: string, lines: readonly string[]): Markup | undefined {
  if (lines.length === 0) return undefined;
  return html`<section aria-labelledby="${id}"><h2 id="${id}">${title}</h2><ul class="findings">${lines.map((line) => html`<li>${unbroken(line)}</li>`)}</ul></section>`;
}
