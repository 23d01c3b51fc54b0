import type { SnapshotAnalysis } from '../snapshot/analyse.js';
import { recordingOf } from '../snapshot/document.js';
import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown } from '../units/known.js';
import { emblem } from './html/emblem.js';
import { html, Markup, unbroken } from './html/markup.js';
import { pageHead } from './html/page-head.js';
import {
  eventSection,
  findingList,
  flameSection,
  holderSection,
  timeSection,
  whatIfSection,
} from './html/snapshot-sections.js';
import { snapshotStyle } from './html/snapshot-style.js';
import { snapshotFindings } from './snapshot-findings.js';
import { packRecording } from './snapshot-page/pack.js';
import { snapshotPageData } from './snapshot-page/page-data.js';
import { percentWords, utcWords } from './words.js';

/** The programs of the page: what draws, and what holds the recording in a thread of its own. */
export interface SnapshotScripts {
  readonly page: string;
  readonly worker: string;
}

/**
 * A snapshot as one HTML page that stands alone: findings and tables as text, memory over time, the
 * allocator at each event, and a flame graph to look into.
 *
 * @example
 * const page = renderSnapshotHtml(analysis, { name: 'oom.pickle', version, scripts });
 * await writeFile('snapshot.html', page);
 */
export function renderSnapshotHtml(
  analysis: SnapshotAnalysis,
  {
    name,
    version,
    scripts,
  }: { readonly name: string; readonly version: string; readonly scripts: SnapshotScripts },
): string {
  const findings = snapshotFindings(analysis);
  const { header, columns } = snapshotPageData(analysis);
  const page = html`${pageHead({ title: `Memory snapshot ${name}`, version, style: snapshotStyle, scripts: true })}
<body>
<main id="page">
${masthead(analysis, name, findings[0]?.text ?? '')}
<section aria-label="More findings">${findingList(findings.slice(1))}</section>
<p class="soft" id="loading" role="status">The charts need JavaScript; findings and tables do not.</p>
${timeSection(analysis, header.omitted)}
<div class="frames" id="frames" hidden tabindex="0" role="region" aria-label="Stack of what was chosen"></div>
${eventSection(analysis)}
${flameSection(analysis)}
${holderSection(analysis)}
${whatIfSection(analysis)}
<footer class="soft"><p><b>Measured</b> figures were recorded by PyTorch's allocator. <b>Simulated</b> ones come from replaying its requests. <b>Estimated</b> ones are concluded from the others.</p>
<p>GiB are 1024<sup>3</sup> bytes. Made by plimsoll ${version}.</p></footer>
</main>
<script type="text/plain" id="worker">${inScript(scripts.worker)}</script>
${packRecording(header, columns).map((piece) => html`<script type="text/plain" class="recording">${new Markup(piece)}</script>\n`)}<script>${inScript(scripts.page)}</script>
</body>
</html>
`;
  return page.text;
}

function masthead(analysis: SnapshotAnalysis, name: string, first: string): Markup {
  const { figures, history, device, fragmentation } = analysis;
  const recording = recordingOf(analysis);
  const started = recording.startedEpochMs;
  const when =
    typeof started === 'number' && isKnown(started)
      ? `recorded from ${utcWords(started)} for ${formatSeconds(recording.seconds)}`
      : 'without a recording';
  const facts: readonly (readonly [string, string])[] = [
    ['Allocated', formatBytes(figures.allocatedBytes)],
    ['Reserved', formatBytes(figures.reservedBytes)],
    [
      'Peak allocated',
      device.events.length > 0 ? formatBytes(history.peakAllocated.allocatedBytes) : 'unknown',
    ],
    ['Fragmentation', percentWords(fragmentation.share * 100, 1)],
    ['Segments', device.segments.length.toLocaleString('en-US')],
    ['Events', device.events.length.toLocaleString('en-US')],
  ];
  return html`<header><div class="masthead">${emblem()}<div><h1>Memory snapshot</h1>
<p class="soft">${name}, device ${device.device}, ${when}</p></div></div>
<p class="lede">${unbroken(first)}</p>
<dl class="facts">${facts.map(([what, value]) => html`<div><dt>${what}</dt><dd>${value}</dd></div>`)}</dl></header>`;
}

/** A program that cannot end the script element that it stands in. */
function inScript(program: string): Markup {
  return new Markup(program.replaceAll(/<(?=\/script|!--)/gi, String.raw`\x3C`));
}
