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
  return html`<section aria-labelledby="time-name"><div class="heading"><h2 id="time-name">Memory over time, by stack</h2>${tag('measured')}</div>
<p class="soft">Each colour is what one call stack holds; grey is the rest. The dashed line is reserved memory.${omitted > 0 && html` The areas leave out ${count(omitted, 'allocation')}, the smallest and shortest; the black line has all of them.`} Scroll or + and - to zoom, drag or Page Up and Down to move, arrow keys to read, click a colour for its stack.</p>
<div class="controls"><button type="button" data-act="zoom-in">Zoom in</button><button type="button" data-act="zoom-out">Zoom out</button><button type="button" data-act="zoom-all">All</button><button type="button" data-act="zoom-peak">Peak</button><button type="button" data-act="left" aria-label="Earlier">&#8592;</button><button type="button" data-act="right" aria-label="Later">&#8594;</button><span class="soft" id="range"></span></div>
<div class="chart-box" id="time" tabindex="0" role="application" aria-label="Memory over time by stack; arrow keys read, plus and minus zoom"><canvas></canvas><canvas class="overlay"></canvas></div>
<p class="readout" id="time-readout" aria-live="polite">&nbsp;</p>
<ul class="stack-list" id="stack-list" aria-label="Stacks by the most they held"></ul></section>`;
}

export function flameSection({ peakHolders }: SnapshotAnalysis): Markup {
  return html`<section aria-labelledby="flame-name"><div class="heading"><h2 id="flame-name">Flame graph of live bytes</h2>${tag('measured')}</div>
<p class="soft">As wide as the bytes that were allocated below a call, outermost call on top. Click or Enter narrows it down, Escape shows all.</p>
<div class="controls"><button type="button" data-flame="now" aria-pressed="true">At the snapshot</button>${peakHolders.length > 0 && html`<button type="button" data-flame="peak" aria-pressed="false">At the peak</button>`}</div>
<div class="flame" id="flame" tabindex="0" role="application" aria-label="Flame graph; arrow keys move, Enter narrows down"></div>
<p class="readout" id="flame-readout" aria-live="polite">&nbsp;</p></section>`;
}

export function segmentSection(analysis: SnapshotAnalysis, shown: number): Markup {
  const { segments } = analysis.device;
  const left = segments.length - shown;
  return html`<section aria-labelledby="map-name"><div class="heading"><h2 id="map-name">Map of segments</h2>${tag('measured')}</div>
<p class="soft">Each row is a segment, its blocks in their place; what has no colour is free. Widths follow the square root of the size.${left > 0 && html` ${count(left, 'smaller or empty segment')} not drawn.`}</p>
<div class="segment-map" id="segment-map" tabindex="0" role="application" aria-label="Map of segments; arrow keys move"><canvas></canvas></div>
<p class="readout" id="map-readout" aria-live="polite">&nbsp;</p>${poolTable(analysis)}</section>`;
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
