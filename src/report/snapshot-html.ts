import type { SnapshotAnalysis } from '../snapshot/analyse.js';
import { recordingOf } from '../snapshot/document.js';
import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown } from '../units/known.js';
import { emblem } from './html/emblem.js';
import { html, Markup, unbroken } from './html/markup.js';
import { pageHead } from './html/page-head.js';
import { baseScript } from './html/snapshot-script-base.js';
import { mapsScript } from './html/snapshot-script-maps.js';
import { timeScript } from './html/snapshot-script-time.js';
import {
  findingList,
  flameSection,
  holderSection,
  segmentSection,
  timeSection,
  whatIfSection,
} from './html/snapshot-sections.js';
import { snapshotStyle } from './html/snapshot-style.js';
import { snapshotFindings } from './snapshot-findings.js';
import { snapshotPageData } from './snapshot-page-data.js';
import { percentWords, utcWords } from './words.js';

/**
 * A snapshot as one HTML page that stands alone: findings and tables as text, memory over time, a
 * flame graph and a map of segments to look into.
 *
 * @example
 * await writeFile('snapshot.html', renderSnapshotHtml(analysis, { name: 'oom.pickle', version }));
 */
export function renderSnapshotHtml(
  analysis: SnapshotAnalysis,
  { name, version }: { readonly name: string; readonly version: string },
): string {
  const findings = snapshotFindings(analysis);
  const data = snapshotPageData(analysis);
  const page = html`${pageHead({ title: `Memory snapshot ${name}`, version, style: snapshotStyle, scripts: true })}
<body>
<main>
${masthead(analysis, name, findings[0]?.text ?? '')}
<section aria-label="More findings">${findingList(findings.slice(1))}</section>
${timeSection(analysis, data.lives.omitted)}
<div class="frames" id="frames" hidden tabindex="0" aria-live="polite"></div>
${flameSection(analysis)}
${segmentSection(analysis, data.segments.length)}
${holderSection(analysis)}
${whatIfSection(analysis)}
<noscript><p class="soft">The charts need JavaScript; findings and tables do not.</p></noscript>
<footer class="soft"><p><b>Measured</b> figures were recorded by PyTorch's allocator. <b>Simulated</b> ones come from replaying its requests. <b>Estimated</b> ones are concluded from the others.</p>
<p>GiB are 1024<sup>3</sup> bytes. Made by plimsoll ${version}.</p></footer>
</main>
<script type="application/json" id="data">${new Markup(scriptJson(data))}</script>
<script>${new Markup(`{${baseScript}${timeScript}${mapsScript}}`)}</script>
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

/** JSON that cannot end the script element it stands in. */
function scriptJson(data: unknown): string {
  return JSON.stringify(data)
    .replaceAll('<', String.raw`\u003c`)
    .replaceAll('\u2028', String.raw`\u2028`)
    .replaceAll('\u2029', String.raw`\u2029`);
}
