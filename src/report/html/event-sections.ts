import { formatSeconds } from '../../units/durations.js';
import type { ProfileReport, ReportEvent } from '../report-shape.js';
import { count } from '../words.js';
import type { NumberedAlert } from './alert-marks.js';
import { html, type Markup } from './markup.js';

export function alertSection(alerts: readonly NumberedAlert[]): Markup {
  if (alerts.length === 0) {
    return html`<section aria-labelledby="alerts"><h2 id="alerts">Alerts</h2><p class="soft">None was raised.</p></section>`;
  }
  const items = alerts.map(
    ({
      number,
      alert,
    }) => html`<li class="${alert.severity} ${alert.state}"><span class="mark">${number}</span>
<span class="soft">after ${formatSeconds(Math.max(0, alert.atSeconds))}</span>
<div><p>${alert.message} <span class="tag ${alert.provenance}">${alert.provenance}</span></p>
<p class="soft">${alert.deviceId}${alert.pid !== undefined && `, process ${alert.pid}`}, ${alert.kind}, ${alert.severity}, ${alert.state}</p></div></li>`,
  );
  return html`<section aria-labelledby="alerts"><h2 id="alerts">Alerts</h2><ol class="alerts">${items}</ol></section>`;
}

export function eventSection({ events }: ProfileReport): Markup | undefined {
  if (events.length === 0) return undefined;
  const rows = events.map(
    (event) =>
      html`<tr><td class="number">${formatSeconds(Math.max(0, event.atSeconds))}</td><td>${event.deviceId}</td><td class="name">${eventWords(event)}</td></tr>`,
  );
  return html`<section aria-labelledby="events"><h2 id="events">Events</h2><div class="scroll"><table class="flowing"><thead><tr><th scope="col" class="number">After</th><th scope="col">Device</th><th scope="col">What happened</th></tr></thead><tbody>${rows}</tbody></table></div></section>`;
}

/** What happened to a device, in words. */
function eventWords(event: ReportEvent): string {
  switch (event.type) {
    case 'appeared':
      return 'The device appeared.';
    case 'vanished':
      return `The device vanished: ${event.reason ?? 'unknown'}`;
    case 'late':
      return `Readings took longer than the interval; ${count(event.missed ?? 0, 'tick')} left out.`;
    default:
      return event.type satisfies never;
  }
}
