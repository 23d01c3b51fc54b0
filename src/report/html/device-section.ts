import type { ProcessReading } from '../../device/types.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';
import type { Leak } from '../../watch/types.js';
import { deviceFindings } from '../findings.js';
import type { DeviceReport } from '../report-shape.js';
import { percentOf, percentWords, rateWords, trendWords } from '../words.js';
import type { NumberedAlert } from './alert-marks.js';
import { narrowChart, wideChart } from './chart-frame.js';
import { html, Markup, unbroken } from './markup.js';
import { memoryChart } from './memory-chart.js';
import { tag } from './overview.js';

/** All about one device: findings, chart, figures, processes. */
export function deviceSection(
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
