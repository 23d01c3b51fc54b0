import type { SnapshotAnalysis } from '../../snapshot/analyse.js';
import { byFile, byModule, type PlaceHolder } from '../../snapshot/answer/holders.js';
import { formatBytes } from '../../units/bytes.js';
import type { Finding } from '../findings.js';
import { originText } from '../snapshot-findings.js';
import { count, percentWords } from '../words.js';
import { html, type Markup, unbroken } from './markup.js';
import { tag } from './overview.js';

const most = 15;

export function findingList(findings: readonly Finding[]): Markup {
  return html`<ul class="findings">${findings.map(
    ({ level, text, provenance }) =>
      html`<li class="${level}">${unbroken(text)} ${tag(provenance)}</li>`,
  )}</ul>`;
}

/** Charts that the script fills; their words stand here. */
export function timeSection({ device }: SnapshotAnalysis, omitted: number): Markup | undefined {
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
export function eventSection(analysis: SnapshotAnalysis): Markup {
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

export function flameSection({ peakHolders, device }: SnapshotAnalysis): Markup {
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

export function holderSection({ holders, snapshot, figures }: SnapshotAnalysis): Markup {
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

export function whatIfSection({ whatIfs, history }: SnapshotAnalysis): Markup | undefined {
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
