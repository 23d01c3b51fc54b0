import type { ReportAlert } from '../report-shape.js';
import { type Frame, px } from './chart-frame.js';
import { html, type Markup } from './markup.js';

/** An alert with the number it has in the list below the charts. */
export interface NumberedAlert {
  readonly number: number;
  readonly alert: ReportAlert;
}

/** Numbers closer than this would cover one another; the tick alone is drawn then. */
const roomForNumber = 16;

/** Each raised alert where it happened: a tick through the plot and its number at the foot. */
export function alertMarks(alerts: readonly NumberedAlert[], frame: Frame): Markup[] {
  let lastNumber = -Infinity;
  return alerts
    .filter(({ alert }) => alert.state === 'raised')
    .toSorted((one, other) => one.alert.atSeconds - other.alert.atSeconds)
    .map(({ number, alert }) => {
      const at = Math.min(Math.max(alert.atSeconds, frame.fromSeconds), frame.toSeconds);
      const x = frame.x(at);
      const numbered = x - lastNumber >= roomForNumber;
      if (numbered) lastNumber = x;
      const y = frame.bottom - 9;
      return html`<g class="alert ${alert.severity}">
<line x1="${px(x)}" x2="${px(x)}" y1="${px(frame.top)}" y2="${px(numbered ? y - 8 : frame.bottom)}"/>
${numbered && html`<circle cx="${px(x)}" cy="${px(y)}" r="7.5"/><text x="${px(x)}" y="${px(y + 3.5)}" text-anchor="middle">${number}</text>`}
<title>${number}. ${alert.message}</title></g>`;
    });
}
