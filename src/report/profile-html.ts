import type { ProcessReading } from '../device/types.js';
import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown } from '../units/known.js';
import type { Leak } from '../watch/types.js';
import { deviceFindings } from './findings.js';
import {
  bandPath,
  type ChartSize,
  chartFrame,
  type Frame,
  linePath,
  narrowChart,
  px,
  wideChart,
} from './html/chart-frame.js';
import {
  emblemAt,
  html,
  Markup,
  masthead,
  overview,
  pageHead,
  tag,
  unbroken,
} from './html/page-head.js';
import type { DeviceReport, ProfileReport, ReportAlert, ReportEvent } from './profile-report.js';
import { byteTicks, timeTicks } from './ticks.js';
import {
  count,
  etaWords,
  fullWords,
  percentOf,
  percentWords,
  rateWords,
  trendWords,
} from './words.js';

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

/** An alert with the number it has in the list below the charts. */
interface NumberedAlert {
  readonly number: number;
  readonly alert: ReportAlert;
}

/** Numbers closer than this would cover one another; the tick alone is drawn then. */
const roomForNumber = 16;

/** Each raised alert where it happened: a tick through the plot and its number at the foot. */
function alertMarks(alerts: readonly NumberedAlert[], frame: Frame): Markup[] {
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

/** All about one device: findings, chart, figures, processes. */
function deviceSection(
  device: DeviceReport,
  alerts: readonly NumberedAlert[],
  index: number,
): Markup {
  const key = `device-${index}`;
  const own = alerts.filter(({ alert }) => alert.deviceId === device.id);
  return html`<section class="device" id="${key}" aria-labelledby="${key}-name">
<div class="heading"><h2 id="${key}-name">${device.id} <span>${device.name}</span></h2>${tag(device.provenance)}${!device.present && html`<span class="tag gone">gone at the end</span>`}</div>
<p class="soft">${origin(device)}</p>
<ul class="findings">${deviceFindings(device).map(
    (finding) =>
      html`<li class="${finding.level}">${unbroken(finding.text)} ${tag(finding.provenance)}</li>`,
  )}</ul>
${advice(device)}
<figure>${memoryChart(device, own, wideChart, key)}${memoryChart(device, own, narrowChart, key)}
<figcaption>${legend(device)}</figcaption><p class="readout"></p></figure>
<h3>Figures, ${device.provenance}</h3>${figures(device)}
<h3>Processes that hold memory, ${device.provenance}</h3>${processes(device)}
</section>`;
}

function origin(device: DeviceReport): string {
  const parts = [
    device.provenance === 'simulated'
      ? 'Simulated: these figures are not from real memory'
      : `Read through ${device.source}`,
    isKnown(device.driver) && `driver ${device.driver}`,
    isKnown(device.uuid) && device.uuid,
  ];
  return parts.filter(Boolean).join(', ');
}

function advice({ forecast }: DeviceReport): Markup | undefined {
  if (forecast.recommendations.length === 0) return undefined;
  return html`<h3>What to do</h3><ul class="advice">${forecast.recommendations.map((text) => html`<li>${text}</li>`)}</ul>`;
}

/** Only what the chart really shows. */
function legend(device: DeviceReport): Markup[] {
  const { series, forecast, provenance } = device;
  const entries = [
    legendKey(
      '<rect class="band" width="22" height="12"/><path class="line used" d="M0 6H22"/>',
      `used, mean and range, ${provenance}`,
    ),
  ];
  if (series.allocatedBytes) {
    entries.push(
      legendKey(
        '<path class="line allocated" d="M0 6H22"/>',
        `allocated by live tensors, ${provenance}`,
      ),
    );
  }
  if (series.reservedBytes) {
    entries.push(
      legendKey(
        '<path class="line reserved" d="M0 6H22"/>',
        `reserved by the allocator, ${provenance}`,
      ),
    );
  }
  if (typeof forecast.etaSeconds === 'number') {
    entries.push(
      legendKey(
        '<path class="cone" d="M0 12L22 0V12Z"/><path class="expected" d="M0 12L22 3"/>',
        'forecast and its bounds, estimated',
      ),
    );
  }
  return entries;
}

function legendKey(drawing: string, label: string): Markup {
  return html`<span class="key"><svg viewBox="0 0 22 12" aria-hidden="true">${new Markup(drawing)}</svg>${label}</span>`;
}

function figure(name: string, value: string, note = ''): Markup {
  return html`<div><dt>${name}</dt><dd>${value} <small>${note}</small></dd></div>`;
}

function figures(device: DeviceReport): Markup {
  const { currentUsage: usage, statistics, loadLine } = device;
  const peakAt = isKnown(statistics.peakAtSeconds)
    ? `after ${formatSeconds(statistics.peakAtSeconds)}`
    : '';
  const allocator = isKnown(usage.allocator) ? usage.allocator : undefined;
  return html`<dl class="grid">
${figure('Used', formatBytes(usage.usedBytes), percentWords(usage.usedPercent, 1))}
${figure('Free', formatBytes(usage.freeBytes))}
${figure('Capacity', formatBytes(usage.totalBytes))}
${figure('Load line', formatBytes(loadLine.bytes), percentWords(loadLine.percent))}
${figure('Peak', formatBytes(statistics.peakBytes), `${percentWords(statistics.maxUsedPercent, 1)} ${peakAt}`)}
${figure('Mean use', percentWords(statistics.meanUsedPercent, 1))}
${figure('Least use', percentWords(statistics.minUsedPercent, 1))}
${figure('Trend', trendWords(statistics.trend))}
${figure('Compute', percentWords(usage.utilizationPercent))}
${allocator && figure('Allocated', formatBytes(allocator.allocatedBytes), 'live tensors')}
${allocator && figure('Reserved', formatBytes(allocator.reservedBytes), `of ${formatBytes(allocator.limitBytes)} allowed`)}
${figure('Samples', statistics.samplesCount.toLocaleString('en-US'), statistics.missedTicks > 0 ? `${statistics.missedTicks.toLocaleString('en-US')} ticks missed` : '')}
</dl>`;
}

/** A report of a busy host must stay readable; the JSON has them all. */
const processesShown = 20;

function processes(device: DeviceReport): Markup {
  const seen = device.processes;
  if (!isKnown(seen)) return html`<p>Unknown: the processes of this device could not be seen.</p>`;
  if (seen.length === 0) return html`<p>None was seen.</p>`;
  const rows = seen.slice(0, processesShown).map((process) => {
    const share = percentOf(process.usedBytes, device.currentUsage.totalBytes);
    const leak = device.processLeaks.find((candidate) => candidate.pid === process.pid);
    return html`<tr><td class="number">${process.pid}</td><td class="name">${process.name}</td><td class="number">${formatBytes(process.usedBytes)}<span class="meter"><i style="width:${isKnown(share) ? Math.min(100, share).toFixed(1) : 0}%"></i></span></td><td class="number">${percentWords(share, 1)}</td><td>${growth(leak, process)}</td></tr>`;
  });
  const more = seen.length - processesShown;
  return html`<div class="scroll"><table class="flowing"><thead><tr><th scope="col" class="number">Pid</th><th scope="col">Name</th><th scope="col" class="number">Memory</th><th scope="col" class="number">Of the device</th><th scope="col">Growth</th></tr></thead><tbody>${rows}</tbody></table></div>
${more > 0 && html`<p class="soft">and ${more} more</p>`}`;
}

function growth(leak: Leak | undefined, { usedBytes }: ProcessReading): string {
  if (leak) {
    const doubt = leak.found === true ? '' : ', not known to be a leak';
    return `${rateWords(leak.bytesPerSecond)}${doubt}, estimated`;
  }
  return isKnown(usedBytes) ? 'none found' : 'unknown';
}

/** Memory of one device over time as an SVG that needs nothing from outside the page. */
function memoryChart(
  device: DeviceReport,
  alerts: readonly NumberedAlert[],
  size: ChartSize,
  key: string,
): Markup {
  const frame = chartFrame(device, size);
  const { series } = device;
  const id = `${key}-${size.name}`;
  const clipId = `${id}-plot`;
  return html`<svg class="chart ${size.name}" viewBox="0 0 ${size.width} ${size.height}" role="img" aria-labelledby="${id}-title ${id}-desc" data-hover>
<title id="${id}-title">Memory of ${device.id}, ${device.name}, over time</title>
<desc id="${id}-desc">${description(device)}</desc>
<clipPath id="${clipId}"><rect x="${px(frame.left)}" y="${px(frame.top)}" width="${px(frame.right - frame.left)}" height="${px(frame.bottom - frame.top)}"/></clipPath>
${axes(frame)}
<path class="area" d="${bandPath(
    frame,
    series.seconds,
    series.seconds.map(() => 0),
    series.usedBytes.mean,
  )}"/>
<path class="band" d="${bandPath(frame, series.seconds, series.usedBytes.min, series.usedBytes.max)}"/>
${series.reservedBytes && html`<path class="line reserved" d="${linePath(frame, series.seconds, series.reservedBytes.max)}"/>`}
${series.allocatedBytes && html`<path class="line allocated" d="${linePath(frame, series.seconds, series.allocatedBytes.max)}"/>`}
<path class="line used" d="${linePath(frame, series.seconds, series.usedBytes.mean)}"/>
${hoverColumns(device, frame)}
${forecastCone(device, frame, clipId)}
${limits(device, frame)}
${alertMarks(alerts, frame)}
${nowMark(device, frame)}
</svg>`;
}

function axes(frame: Frame): Markup {
  const bytes = byteTicks(frame.topBytes, frame.size.byteTicks).map(
    ({ at, label }) =>
      html`<line x1="${px(frame.left)}" x2="${px(frame.right)}" y1="${px(frame.y(at))}" y2="${px(frame.y(at))}"/><text x="${px(frame.left - 8)}" y="${px(frame.y(at) + 4)}" text-anchor="end">${label}</text>`,
  );
  const times = timeTicks(frame.fromSeconds, frame.toSeconds, frame.size.timeTicks).map(
    ({ at, label }) =>
      html`<line x1="${px(frame.x(at))}" x2="${px(frame.x(at))}" y1="${px(frame.bottom)}" y2="${px(frame.bottom + 5)}"/><text x="${px(frame.x(at))}" y="${px(frame.bottom + 19)}" text-anchor="middle">${label}</text>`,
  );
  return html`<g class="axis">${bytes}${times}</g>`;
}

/** Lines closer than this have no room for a label between them. */
const labelHeight = 17;

/** Capacity, the allocator's cap where it is another figure, and the load line over all. */
function limits(device: DeviceReport, frame: Frame): Markup {
  const total = device.currentUsage.totalBytes;
  const { limit, loadLine } = device;
  const capacityY = isKnown(total) ? frame.y(total) : -Infinity;
  const own = limit.of === 'allocator' && limit.bytes !== total && isKnown(limit.bytes);
  const loadY = isKnown(loadLine.bytes) ? frame.y(loadLine.bytes) : undefined;
  const others = [capacityY, loadY ?? -Infinity];
  return html`${isKnown(total) && rule(frame, capacityY, `capacity ${formatBytes(total)}`)}
${own && isKnown(limit.bytes) && allocatorRule(frame, frame.y(limit.bytes), `allocator limit ${formatBytes(limit.bytes)}`, others)}
${
  loadY !== undefined &&
  html`<g class="load-line"><line x1="${px(frame.left)}" x2="${px(frame.right)}" y1="${px(loadY)}" y2="${px(loadY)}"/>${emblemAt(frame.left + 14, loadY)}<line x1="${px(frame.left + 4)}" x2="${px(frame.left + 24)}" y1="${px(loadY)}" y2="${px(loadY)}"/><text x="${px(frame.left + 28)}" y="${px(labelY(loadY, [capacityY]))}">load line ${percentWords(loadLine.percent)}</text></g>`
}`;
}

function rule(frame: Frame, y: number, label: string): Markup {
  return html`<g class="capacity"><line x1="${px(frame.left)}" x2="${px(frame.right)}" y1="${px(y)}" y2="${px(y)}"/><text x="${px(frame.left + 28)}" y="${px(y - 5)}">${label}</text></g>`;
}

/** Its label is at the other end: the line may lie anywhere near the other two. */
function allocatorRule(frame: Frame, y: number, label: string, others: readonly number[]): Markup {
  return html`<g class="capacity"><line x1="${px(frame.left)}" x2="${px(frame.right)}" y1="${px(y)}" y2="${px(y)}"/><text x="${px(frame.right)}" y="${px(labelY(y, others))}" text-anchor="end">${label}</text></g>`;
}

/** Above its line, or below it where another line is too close above. */
function labelY(y: number, others: readonly number[]): number {
  return others.some((other) => other <= y && y - other < labelHeight) ? y + 14 : y - 5;
}

/** What the picture shows, for those who do not see it. */
function description(device: DeviceReport): string {
  const { statistics, series, forecast, provenance } = device;
  const span = formatSeconds((series.seconds.at(-1) ?? 0) - (series.seconds[0] ?? 0));
  const eta = etaWords(forecast);
  const ahead = eta === undefined ? 'No end is forecast.' : `Estimated to be full in ${eta}.`;
  return `Used memory over ${span}, ${provenance}: between ${percentWords(statistics.minUsedPercent, 1)} and ${percentWords(statistics.maxUsedPercent, 1)} of ${formatBytes(device.currentUsage.totalBytes)}, ${percentWords(device.currentUsage.usedPercent, 1)} at the end. Load line at ${percentWords(device.loadLine.percent)}. ${ahead}`;
}

/** A readout for every few pixels: more would be wider than a pointer is exact. */
const most = 160;

/**
 * Invisible columns over the plot, each with its figures as a tooltip: they work without script;
 * the script only shows the same words at once, and a line where the pointer is.
 */
function hoverColumns(device: DeviceReport, frame: Frame): Markup {
  const { seconds, usedBytes, allocatedBytes, reservedBytes } = device.series;
  const stride = Math.max(
    1,
    Math.ceil(seconds.length / (frame.size.name === 'wide' ? most : most / 2)),
  );
  const columns: Markup[] = [];
  for (let index = 0; index < seconds.length; index += stride) {
    const at = seconds[index] ?? 0;
    const x = frame.x(at);
    const end = frame.x(seconds[index + stride] ?? frame.nowSeconds);
    const used = usedBytes.mean[index] ?? 'unknown';
    const allocated = allocatedBytes?.max[index] ?? 'unknown';
    const reserved = reservedBytes?.max[index] ?? 'unknown';
    const text = [
      formatSeconds(at),
      `used ${formatBytes(used)}`,
      isKnown(allocated) && `allocated ${formatBytes(allocated)}`,
      isKnown(reserved) && `reserved ${formatBytes(reserved)}`,
    ]
      .filter(Boolean)
      .join(', ');
    columns.push(
      html`<rect x="${px(x)}" y="${px(frame.top)}" width="${px(Math.max(1, end - x))}" height="${px(frame.bottom - frame.top)}"><title>${text}</title></rect>`,
    );
  }
  return html`<line class="cursor" y1="${px(frame.top)}" y2="${px(frame.bottom)}"/><g class="columns" aria-hidden="true">${columns}</g>`;
}

/** The page is whole without it. */
const hoverScript = new Markup(`<script>
for (const figure of document.querySelectorAll('figure')) {
  const readout = figure.querySelector('.readout');
  const rest = readout.textContent;
  for (const chart of figure.querySelectorAll('[data-hover]')) {
    const cursor = chart.querySelector('.cursor');
    chart.addEventListener('pointermove', (event) => {
      if (event.target.parentNode.getAttribute('class') !== 'columns') return;
      const x = event.target.getAttribute('x');
      cursor.setAttribute('x1', x);
      cursor.setAttribute('x2', x);
      cursor.style.visibility = 'visible';
      readout.textContent = event.target.textContent;
    });
    chart.addEventListener('pointerleave', () => {
      cursor.style.visibility = 'hidden';
      readout.textContent = rest;
    });
  }
}
</script>`);

/**
 * The forecast, drawn from the last sample to the limit: the expected line, and the cone of its
 * bounds. A bound of `never` leaves the cone open to the right.
 */
function forecastCone(device: DeviceReport, frame: Frame, clipId: string): Markup | undefined {
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
function nowMark(device: DeviceReport, frame: Frame): Markup | undefined {
  if (frame.toSeconds - frame.nowSeconds < 1e-9 || typeof device.forecast.etaSeconds !== 'number') {
    return undefined;
  }
  const x = px(frame.x(frame.nowSeconds));
  const y = px(frame.top - 9);
  return html`<g class="now"><line x1="${x}" x2="${x}" y1="${px(frame.top - 20)}" y2="${px(frame.bottom)}"/>
<text x="${px(frame.x(frame.nowSeconds) - 6)}" y="${y}" text-anchor="end">${device.provenance}</text>
<text x="${px(frame.x(frame.nowSeconds) + 6)}" y="${y}">estimated</text></g>`;
}

function alertSection(alerts: readonly NumberedAlert[]): Markup {
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

function eventSection({ events }: ProfileReport): Markup | undefined {
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
