import type { DeviceView } from '../../jobs/daemon/types.js';
import { isOnRequest } from '../../jobs/placement.js';
import { formatBytes } from '../../units/bytes.js';
import { count } from '../words.js';
import { paintLine, type Span, span, type TextStyle } from './spans.js';
import { cleanText } from './text-width.js';

/** The facts that a new server prints. */
export interface ServeFacts {
  readonly url: string;
  readonly home: string;
  /** Opens the dashboard. */
  readonly link: string;
  readonly hasPage: boolean;
  readonly devices: readonly DeviceView[];
  readonly counts: Readonly<Record<string, number>>;
  readonly notes: readonly string[];
}

const labelWidth = 11;

/** For the person who started it. */
export function serveText(
  facts: ServeFacts,
  { columns, style }: { readonly columns: number; readonly style: TextStyle },
): string {
  const { url, link, hasPage, devices, counts } = facts;
  const waiting = counts['waiting'] ?? 0;
  const running = counts['running'] ?? 0;
  const lines: Span[][] = [
    [span('plimsoll serves at '), span(cleanText(url), 'bold')],
    ...devices.map((device) =>
      labelled(device.id.slice(0, labelWidth - 1), span(cleanText(deviceWords(device, devices)))),
    ),
    labelled(
      'jobs',
      span(
        `${running} run, ${waiting} wait${running > 0 ? '; those that run were taken up again' : ''}`,
      ),
    ),
    labelled('home', span(cleanText(facts.home))),
    ...(hasPage ? [] : [labelled('note', span('there is no dashboard: dist/web was not built'))]),
    ...facts.notes.map((note) => labelled('note', span(cleanText(note)))),
    [span('Ctrl-C closes it; jobs go on without it.', 'dim')],
  ];
  const [first = '', ...rest] = lines.map((line) => paintLine(line, columns, style));
  return [first, ...(hasPage ? linkLines(url, link) : []), ...rest].join('\n');
}

/** Never cut to the width of the terminal: half a link opens nothing. */
function linkLines(url: string, link: string): readonly string[] {
  const label = 'dashboard'.padEnd(labelWidth);
  if (link === url) return [`${label}${cleanText(link)}`];
  return [
    `${label}${cleanText(link)}`,
    `${' '.repeat(labelWidth)}This link opens once; "plimsoll dashboard" prints another.`,
  ];
}

function labelled(label: string, ...spans: Span[]): Span[] {
  return [span(label.padEnd(labelWidth), 'dim'), ...spans];
}

function deviceWords(device: DeviceView, all: readonly DeviceView[]): string {
  const { name, totalBytes, loadLineBytes, takesJobs, provenance } = device;
  const simulated = provenance === 'simulated' && !name.includes('simulated') ? ' (simulated)' : '';
  const only = isOnRequest(device, all) ? ', for jobs with --gpus 0' : '';
  const line = takesJobs ? `load line at ${formatBytes(loadLineBytes)}${only}` : 'takes no jobs';
  return `${name}${simulated}, ${formatBytes(totalBytes)}, ${line}`;
}

/** Tells how the jobs of a closing server go on. */
export function goOnWords(running: number): string {
  if (running === 0) return 'No job was running.';
  return `${count(running, 'job goes', 'jobs go')} on; the next "plimsoll serve" takes up what runs and what waits.`;
}
