import type { NumberedAlert } from './html/alert-marks.js';
import { deviceSection } from './html/device-section.js';
import { alertSection, eventSection } from './html/event-sections.js';
import { hoverScript } from './html/hover.js';
import { html, type Markup } from './html/markup.js';
import { masthead, overview } from './html/overview.js';
import { pageHead } from './html/page-head.js';
import type { ProfileReport } from './report-shape.js';

/**
 * A profile as one HTML page that stands alone: no file beside it, nothing loaded, complete
 * without script.
 *
 * @example
 * await writeFile('profile.html', renderProfileHtml(buildProfileReport(input)));
 */
export function renderProfileHtml(report: ProfileReport): string {
  const alerts: NumberedAlert[] = report.alerts.map((alert, index) => ({
    number: index + 1,
    alert,
  }));
  const devices = Object.values(report.devices);
  const page = html`${pageHead({ title: `Memory profile, ${report.startedAt.slice(0, 10)}`, version: report.tool.version, scripts: true })}
<body>
<main>
${masthead(report)}
${devices.length > 1 && overview(report)}
${devices.map((device, index) => deviceSection(device, alerts, index))}
${alertSection(alerts)}
${eventSection(report)}
${footer(report)}
</main>
${hoverScript}
</body>
</html>
`;
  return page.text;
}

function footer(report: ProfileReport): Markup {
  return html`<footer class="soft">
<p><b>Measured</b> figures were read from the device. <b>Simulated</b> ones come from a scenario or a recording. <b>Estimated</b> ones are concluded from the others, and may be wrong; bounds say by how much.</p>
<p>GiB are 1024<sup>3</sup> bytes. Times are UTC, or count from the start. Made by plimsoll ${report.tool.version}.</p>
</footer>`;
}
