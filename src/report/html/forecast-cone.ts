import { isKnown } from '../../units/known.js';
import type { DeviceReport } from '../report-shape.js';
import { fullWords } from '../words.js';
import { type Frame, px } from './chart-frame.js';
import { html, type Markup } from './markup.js';

/**
 * The forecast, drawn from the last sample to the limit: the expected line, and the cone of its
 * bounds. A bound of `never` leaves the cone open to the right.
 */
export function forecastCone(
  device: DeviceReport,
  frame: Frame,
  clipId: string,
): Markup | undefined {
  const { forecast, limit, series } = device;
  if (typeof forecast.etaSeconds !== 'number' || !isKnown(limit.bytes)) return undefined;
  // What the forecast follows: live bytes where an allocator reports them.
  const from = (series.allocatedBytes ?? series.usedBytes).max.findLast(isKnown);
  if (typeof from !== 'number') return undefined;

  const x0 = frame.x(frame.nowSeconds);
  const y0 = frame.y(from);
  const limitY = frame.y(limit.bytes);
  const reach = (seconds: number): string =>
    `${px(frame.x(frame.nowSeconds + seconds))} ${px(limitY)}`;
  const low = typeof forecast.lowSeconds === 'number' ? forecast.lowSeconds : forecast.etaSeconds;
  const high =
    typeof forecast.highSeconds === 'number'
      ? reach(forecast.highSeconds)
      : `${px(frame.right)} ${px(limitY)}L${px(frame.right)} ${px(y0)}`;
  const etaX = frame.x(frame.nowSeconds + forecast.etaSeconds);
  const inside = etaX <= frame.right;
  return html`<g class="forecast">
<g clip-path="url(#${clipId})">
<path class="cone" d="M${px(x0)} ${px(y0)}L${reach(low)}L${high}Z"/>
<path class="expected" d="M${px(x0)} ${px(y0)}L${reach(forecast.etaSeconds)}"/>
</g>
${inside && html`<circle class="eta" cx="${px(etaX)}" cy="${px(limitY)}" r="3.5"/>`}
<title>Estimated: ${fullWords(forecast) ?? 'unknown'}</title>
</g>`;
}

/** The boundary between what was seen and what is forecast. */
export function nowMark(device: DeviceReport, frame: Frame): Markup | undefined {
  if (frame.toSeconds - frame.nowSeconds < 1e-9 || typeof device.forecast.etaSeconds !== 'number') {
    return undefined;
  }
  const x = px(frame.x(frame.nowSeconds));
  const y = px(frame.top - 9);
  return html`<g class="now"><line x1="${x}" x2="${x}" y1="${px(frame.top - 20)}" y2="${px(frame.bottom)}"/>
<text x="${px(frame.x(frame.nowSeconds) - 6)}" y="${y}" text-anchor="end">${device.provenance}</text>
<text x="${px(frame.x(frame.nowSeconds) + 6)}" y="${y}">estimated</text></g>`;
}
