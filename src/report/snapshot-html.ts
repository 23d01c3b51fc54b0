import type { SnapshotAnalysis } from '../snapshot/analyse.js';
import { byFile, byModule, type PlaceHolder } from '../snapshot/answer/holders.js';
import { recordingOf } from '../snapshot/document.js';
import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown } from '../units/known.js';
import { type Finding, originText, snapshotFindings } from './findings.js';
import { emblem, html, Markup, pageHead, tag, unbroken } from './html/page-head.js';
import { packRecording, snapshotPageData } from './snapshot-recording.js';
import { count, percentWords, utcWords } from './words.js';

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

/** What the page of a snapshot adds to the look of all pages. */
const snapshotStyle = `
main { max-width: 1180px; }
.chart-box { position: relative; margin-top: 14px; border: 1px solid var(--rule); border-radius: 6px; background: var(--card); overflow: hidden; }
.chart-box canvas { display: block; width: 100%; touch-action: pan-y; cursor: crosshair; }
.chart-box:focus-visible, .flame:focus-visible, .segment-map:focus-visible { outline: 2px solid var(--water); outline-offset: 2px; }
.chart-box .overlay { position: absolute; inset: 0; pointer-events: none; }
.controls { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 10px; align-items: center; }
button { font: inherit; font-size: 13.5px; color: var(--ink); background: var(--chip); border: 1px solid var(--rule); border-radius: 6px; padding: 4px 11px; cursor: pointer; }
button:hover { border-color: var(--soft); }
button[aria-pressed="true"] { background: var(--ink); color: var(--ground); }
button:focus-visible { outline: 2px solid var(--water); outline-offset: 1px; }
.choices { display: inline-flex; margin-right: 6px; }
.choices button { border-radius: 0; margin-left: -1px; }
.choices button:first-child { border-radius: 6px 0 0 6px; margin-left: 0; }
.choices button:last-child { border-radius: 0 6px 6px 0; }
input[type="number"] { font: inherit; font-size: 13.5px; width: 8.5em; color: var(--ink); background: var(--card); border: 1px solid var(--soft); border-radius: 6px; padding: 3px 8px; }
label { font-size: 13.5px; }
.keys { margin-top: 4px; }
.keys summary { cursor: pointer; }
.stack-list, .near { list-style: none; margin: 8px 0 0; padding: 0; }
.stack-list { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(420px, 100%), 1fr)); gap: 1px 18px; }
.stack-list button, .near button { width: 100%; text-align: left; background: none; border: 0; padding: 3px 4px; display: flex; gap: 9px; align-items: baseline; border-radius: 4px; color: var(--ink); }
.stack-list button:hover, .stack-list button[aria-pressed="true"], .near button:hover, .near button[aria-current] { background: var(--chip); color: var(--ink); }
.stack-list i { flex: none; width: 11px; height: 11px; border-radius: 2px; align-self: center; }
.stack-list b { flex: none; width: 5.6em; text-align: right; font-weight: 600; }
.stack-list span, .near small { min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.near { border: 1px solid var(--rule); border-radius: 6px; background: var(--card); max-height: 310px; overflow-y: auto; padding: 4px; }
.near:empty { display: none; }
.near i { flex: none; width: 6.5em; text-align: right; font-style: normal; color: var(--soft); }
.near span { flex: none; }
.near button[aria-current] { box-shadow: inset 3px 0 0 var(--accent); }
.link { background: none; border: 0; padding: 0; text-align: left; color: var(--ink); text-decoration: underline; text-decoration-color: var(--soft); text-underline-offset: 3px; overflow-wrap: anywhere; }
.state-words { margin-top: 12px; max-width: 90ch; min-height: 3.1em; }
.state-bar { display: flex; height: 14px; margin-top: 10px; border-radius: 4px; overflow: hidden; background: var(--chip); }
.state-bar i { display: block; height: 100%; }
#bar-used, .legend .used { background: var(--water); }
#bar-pending, .legend .pending { background: var(--warning); }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; margin-top: 5px; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 6px; vertical-align: -1px; }
.legend .cached { background: var(--chip); box-shadow: inset 0 0 0 1px var(--soft); }
.frames { margin: 12px 0 0; padding: 10px 14px; border-left: 3px solid var(--water); background: var(--card); font-size: 13.5px; max-height: min(300px, 40vh); overflow: auto; scroll-margin: 12px; }
.frames p { margin-bottom: 6px; max-width: none; overflow-wrap: anywhere; }
.frames ol { margin: 0; padding-left: 26px; }
.frames li { overflow-wrap: anywhere; padding: 1px 0; }
.frames li b { font-weight: 500; }
.frames li.own b { font-weight: 700; }
.frames li span { color: var(--soft); font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: 12px; margin-left: 6px; }
.frames summary { cursor: pointer; color: var(--soft); }
.flame { margin-top: 12px; overflow: hidden; border-radius: 6px; }
.flame canvas { display: block; width: 100%; cursor: pointer; }
.segment-map { margin-top: 12px; border: 1px solid var(--rule); border-radius: 6px; background: var(--card); max-height: 520px; overflow-y: auto; }
.segment-map canvas { display: block; width: 100%; }
.holders td.name { font-size: 13.5px; }
@media (max-width: 640px) {
  .stack-list button, .near button { flex-wrap: wrap; gap: 0 9px; padding: 5px 4px; }
  .stack-list span { flex: 1 1 12em; white-space: normal; overflow-wrap: anywhere; }
  .near i { width: auto; }
  .near span { flex: 1 1 auto; }
  .near small { flex: 1 1 100%; white-space: normal; overflow-wrap: anywhere; }
  .controls button { padding: 7px 11px; }
}
@media print { .controls, .near, .keys, .chart-box, .flame, .segment-map, .readout { display: none; } }
`;

const most = 15;

function findingList(findings: readonly Finding[]): Markup {
  return html`<ul class="findings">${findings.map(
    ({ level, text, provenance }) =>
      html`<li class="${level}">${unbroken(text)} ${tag(provenance)}</li>`,
  )}</ul>`;
}

/** Charts that the script fills; their words stand here. */
function timeSection({ device }: SnapshotAnalysis, omitted: number): Markup | undefined {
  if (device.events.length < 2) return undefined;
  return html`<section aria-labelledby="time-name"><div class="heading"><h2 id="time-name">Memory over time</h2>${tag('measured')}</div>
<p class="soft">Each colour is what one call stack holds, or one allocation; grey is the rest. What is steady lies at the bottom. The dashed line is reserved memory.${omitted > 0 && html` The areas leave out ${count(omitted, 'allocation')}, the smallest and shortest; the black line has all of them.`} Click a band for its stack and the allocator's state at that event.</p>
<div class="controls">${choices('mode', 'Bands', [
    ['stacks', 'By stack'],
    ['allocations', 'Each allocation'],
  ])}${choices('axis', 'Axis', [
    ['time', 'Time'],
    ['events', 'Events'],
  ])}</div>
<div class="controls">${buttons('act', [
    ['in', 'Zoom in'],
    ['out', 'Zoom out'],
    ['taller', 'Taller', 'Taller: zoom in vertically'],
    ['flatter', 'Flatter', 'Flatter: zoom out vertically'],
    ['all', 'All'],
    ['peak', 'Peak'],
    ['left', '\u2190', 'Earlier'],
    ['right', '\u2192', 'Later'],
    ['up', '\u2191', 'Higher part'],
    ['down', '\u2193', 'Lower part'],
  ])}<span class="soft" id="range"></span></div>
<div class="chart-box" id="time" tabindex="0" role="application" aria-label="Memory over time" aria-describedby="time-keys"><canvas aria-hidden="true"></canvas><canvas class="overlay" aria-hidden="true"></canvas></div>
<p class="soft"><span id="axis-words"></span> <span id="band-words"></span></p>
<p class="readout" id="time-readout" role="status">&nbsp;</p>
<details class="keys soft"><summary>Keys and mouse</summary><p id="time-keys">Left and right arrows read, up and down arrows go from band to band, Enter shows the stack of the band. Plus and minus zoom, square brackets zoom vertically, Page Up and Page Down move, Shift with up and down arrows moves vertically, 0 shows all, P the peak, M switches between stacks and allocations, T between time and events. With the mouse: scroll to zoom, Shift and scroll to zoom vertically, drag to move.</p></details>
<h3>Stacks by the most they held</h3>
<ul class="stack-list" id="stack-list"></ul></section>`;
}

/** The allocator at one event: drawn, as a list of what happened, and as a table. */
function eventSection(analysis: SnapshotAnalysis): Markup {
  const { events } = analysis.device;
  return html`<section aria-labelledby="event-name"><div class="heading"><h2 id="event-name">The allocator at one event</h2>${tag('measured')}</div>
${
  events.length > 1
    ? html`<p class="soft">Choose an event here, or by a click in the chart above, where it is the red line.</p>
<div class="controls"><label>Event <input id="event-number" type="number" min="0" step="1" value="${events.length}"></label>${buttons(
        'event',
        [
          ['first', 'First'],
          ['previous', 'Previous'],
          ['next', 'Next'],
          ['peak', 'Peak'],
          ...(analysis.outOfMemory.length > 0 ? [['oom', 'Out of memory'] as const] : []),
          ['last', 'Snapshot'],
        ],
      )}</div>`
    : html`<input id="event-number" type="hidden" value="0">`
}
<p class="state-words" id="state-words" role="status"></p>
<div class="state-bar" aria-hidden="true"><i id="bar-used"></i><i id="bar-pending"></i><i id="bar-cached"></i></div>
<p class="soft legend"><span><i class="used"></i>used</span> <span><i class="pending"></i>freed, in use by a stream</span> <span><i class="cached"></i>cached: reserved and free</span></p>
<h3>Segments and their blocks</h3>
<p class="soft">Each row is a segment, the largest first, its blocks in their place; what has no colour is free. Widths follow the square root of the size.</p>
<div class="segment-map" id="segment-map" tabindex="0" role="application" aria-label="Map of segments; up and down arrows go to a segment, left and right to a block, Enter shows its stack"><canvas aria-hidden="true"></canvas></div>
<p class="readout" id="map-readout" role="status">&nbsp;</p>
${events.length > 1 && html`<h3>Events around it</h3>`}<ol class="near" id="near"></ol>
<h3>Largest allocations at this event</h3>
<div class="scroll" id="largest-table"><table class="holders flowing"><thead><tr><th scope="col" class="number">Size</th><th scope="col">Allocated by</th></tr></thead><tbody id="largest"></tbody></table></div>
${poolTable(analysis)}</section>`;
}

function flameSection({ peakHolders, device }: SnapshotAnalysis): Markup {
  return html`<section aria-labelledby="flame-name"><div class="heading"><h2 id="flame-name">Flame graph of live bytes</h2>${tag('measured')}</div>
<p class="soft">As wide as the bytes that were allocated below a call, outermost call on top; your own calls are warm, those of libraries cool. Click or Enter narrows it down, Escape shows all.</p>
<div class="controls">${choices('flame', 'When', [
    ['now', 'At the snapshot'],
    ...(peakHolders.length > 0 ? [['peak', 'At the peak'] as const] : []),
    ...(device.events.length > 1 ? [['chosen', 'At the chosen event'] as const] : []),
  ])}<button type="button" id="flame-fold" aria-pressed="false">Frames of libraries</button></div>
<div class="flame" id="flame" tabindex="0" role="application" aria-label="Flame graph; arrow keys move, Enter narrows down"></div>
<p class="readout" id="flame-readout" role="status">&nbsp;</p></section>`;
}

type Named = readonly [value: string, text: string, name?: string];

/** Buttons of which one is pressed: the first. */
function choices(group: string, name: string, all: readonly Named[]): Markup {
  return html`<span class="choices" role="group" aria-label="${name}">${all.map(
    ([value, text], at) =>
      html`<button type="button" data-${group}="${value}" aria-pressed="${String(at === 0)}">${text}</button>`,
  )}</span>`;
}

function buttons(group: string, all: readonly Named[]): Markup {
  return html`${all.map(
    ([value, text, name]) =>
      html`<button type="button" data-${group}="${value}"${name !== undefined && html` aria-label="${name}" title="${name}"`}>${text}</button>`,
  )}`;
}

function poolTable({ fragmentation }: SnapshotAnalysis): Markup {
  return html`<h3>Fragmentation by pool and stream, measured</h3><div class="scroll"><table class="stacked"><thead><tr><th scope="col">Pool</th><th scope="col">Stream</th><th scope="col">Blocks</th><th scope="col" class="number">Segments</th><th scope="col" class="number">Reserved</th><th scope="col" class="number">Free</th><th scope="col" class="number">Largest free</th><th scope="col" class="number">Largest recent request</th><th scope="col" class="number">Stuck</th><th scope="col" class="number">Can be given back</th></tr></thead>
<tbody>${fragmentation.pools.map(
    (pool) =>
      html`<tr><td data-label="Pool">${pool.pool === '0,0' ? 'default' : pool.pool}</td><td data-label="Stream">${pool.stream === '0' ? 'default' : pool.stream}</td><td data-label="Blocks">${pool.type}</td><td class="number" data-label="Segments">${pool.segments}</td><td class="number" data-label="Reserved">${formatBytes(pool.reservedBytes)}</td><td class="number" data-label="Free">${formatBytes(pool.freeBytes)}</td><td class="number" data-label="Largest free">${formatBytes(pool.largestFreeBytes)}</td><td class="number" data-label="Largest recent request">${formatBytes(pool.requestBytes)}</td><td class="number" data-label="Stuck">${formatBytes(pool.stuckBytes)}</td><td class="number" data-label="Can be given back">${formatBytes(pool.releasableBytes)}</td></tr>`,
  )}</tbody></table></div>`;
}

function holderSection({ holders, snapshot, figures }: SnapshotAnalysis): Markup {
  const { names } = snapshot;
  const places = (title: string, all: readonly PlaceHolder[]) =>
    table(
      title,
      all.slice(0, most).map(({ name, bytes, count: blocks }) => ({ name, bytes, blocks })),
      figures.allocatedBytes,
    );
  const stacks = holders.slice(0, most).map(({ stack, bytes, count: blocks }) => ({
    name: originText(names.stack(stack)),
    bytes,
    blocks,
  }));
  return html`<section aria-labelledby="holders-name"><div class="heading"><h2 id="holders-name">Who holds it</h2>${tag('measured')}</div>
${table('By stack', stacks, figures.allocatedBytes)}
${places('By module', byModule(holders, names))}
${places('By file', byFile(holders, names))}</section>`;
}

function table(
  title: string,
  rows: readonly { readonly name: string; readonly bytes: number; readonly blocks: number }[],
  whole: number,
): Markup {
  return html`<h3>${title}</h3><div class="scroll"><table class="holders flowing"><tbody>${rows.map(
    ({ name, bytes, blocks }) =>
      html`<tr><td class="number">${formatBytes(bytes)}</td><td class="number">${percentWords(whole === 0 ? 0 : (bytes / whole) * 100, 1)}</td><td class="number">${count(blocks, 'block')}</td><td class="name">${name}</td></tr>`,
  )}</tbody></table></div>`;
}

function whatIfSection({ whatIfs, history }: SnapshotAnalysis): Markup | undefined {
  if (whatIfs === undefined) return undefined;
  const { asRecorded, others } = whatIfs;
  return html`<section aria-labelledby="what-if-name"><div class="heading"><h2 id="what-if-name">With other allocator settings</h2></div>
<p class="soft">The recorded requests, served by the simulated allocator. Set it with PYTORCH_CUDA_ALLOC_CONF.</p>
<div class="scroll"><table class="flowing"><thead><tr><th scope="col">Setting</th><th scope="col" class="number">Peak reserved</th><th scope="col">Source</th></tr></thead><tbody>
${settingRow('as it was', history.peakReserved.reservedBytes, 'measured')}
${settingRow('as it was', asRecorded.peakReservedBytes, 'simulated')}
${others.map(({ conf, peakReservedBytes, servesOutOfMemory }) => settingRow(conf, peakReservedBytes, 'simulated', servesOutOfMemory ? 'would have served the request that failed' : ''))}
</tbody></table></div></section>`;
}

function settingRow(name: string, bytes: number, word: string, note = ''): Markup {
  return html`<tr><td class="name">${name}</td><td class="number">${formatBytes(bytes)}</td><td>${tag(word)} ${note}</td></tr>`;
}
