import type { Estimate } from '../../estimate/types.js';
import { formatBytes } from '../../units/bytes.js';
import { answersOf, type EstimateGpu } from '../estimate-words.js';
import { percentWords } from '../words.js';
import { html, type Markup } from './markup.js';

/** Bars are drawn in thousandths of their width, and stretched to the page's. */
const width = 1000;
const height = 34;
/** How far beyond what it must show a bar goes. */
const room = 1.04;

/** What the device loses, with its interval, against what the card has. */
export function cardBar(estimate: Estimate, gpu: EstimateGpu): Markup {
  const device = answersOf(estimate, gpu).find(({ name }) => name === 'device');
  const { deviceBytes } = estimate.peak;
  const { lowBytes, highBytes } = device?.interval ?? {
    lowBytes: deviceBytes,
    highBytes: deviceBytes,
  };
  const whole = Math.max(gpu.capacityBytes, highBytes) * room;
  const x = (bytes: number) => ((bytes / whole) * width).toFixed(1);
  const capacity = x(gpu.capacityBytes);
  const within = Math.min(deviceBytes, gpu.capacityBytes);
  const words = `${formatBytes(deviceBytes)} of ${formatBytes(gpu.capacityBytes)}`;
  return html`<svg class="bar" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="${words}">
<rect class="ground" x="0" y="5" width="${capacity}" height="24"/>
<rect class="likely" x="0" y="5" width="${x(within)}" height="24"/>
<rect class="over" x="${x(within)}" y="5" width="${x(deviceBytes - within)}" height="24"/>
<rect class="whisker" x="${x(lowBytes)}" y="10" width="${Math.max(2, Number(x(highBytes)) - Number(x(lowBytes))).toFixed(1)}" height="14"/>
<rect class="capacity" x="${capacity}" y="0" width="3" height="${height}"/>
</svg>
<figcaption class="ends"><span>${formatBytes(deviceBytes)} on the device; the shade is its interval</span><span>the line is the card's ${formatBytes(gpu.capacityBytes)}</span></figcaption>`;
}

/** The parts at the peak instant, each as wide as its share. */
export function breakdownBar({ breakdown, peak }: Estimate): Markup {
  let before = 0;
  const segments = breakdown.map(({ part, bytes }) => {
    const x = (before / peak.deviceBytes) * width;
    before += bytes;
    const share = (bytes / peak.deviceBytes) * width;
    return html`<rect class="part-${part}" x="${x.toFixed(1)}" y="0" width="${share.toFixed(1)}" height="${height}"><title>${part}: ${formatBytes(bytes)}, ${percentWords((bytes / peak.deviceBytes) * 100, 1)}</title></rect>`;
  });
  const words = breakdown.map(({ part, bytes }) => `${part} ${formatBytes(bytes)}`).join(', ');
  return html`<svg class="bar" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="${words}">${segments}</svg>`;
}
