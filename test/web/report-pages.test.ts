import { snapshotScripts } from 'plimsoll:snapshot-page';
import { describe, expect, it } from 'vitest';
import {
  estimatePage,
  overRanks,
  overRanksPage,
  rankPoint,
} from '../../src/report/estimate-for-tests.js';
import { renderEstimateHtml, renderOverRanksHtml } from '../../src/report/estimate-html.js';
import { runReport } from '../../src/report/job-for-tests.js';
import { budget, plan } from '../../src/report/plan-for-tests.js';
import { renderPlanHtml } from '../../src/report/plan-html.js';
import { renderProfileHtml } from '../../src/report/profile-html.js';
import { buildProfileReport } from '../../src/report/profile-report.js';
import { renderRunHtml } from '../../src/report/run-html.js';
import { renderSnapshotHtml } from '../../src/report/snapshot-html.js';
import { fakeState, startEpochMs } from '../../src/report/state-for-tests.js';
import { analyseSnapshot } from '../../src/snapshot/analyse.js';
import { recordedPath } from '../../src/snapshot/made-snapshot-for-tests.js';
import { readSnapshot } from '../../src/snapshot/read-snapshot.js';
import { GiB } from '../../src/units/bytes.js';
import { axeViolations } from './audit.js';
import { needsChromium, useChromium } from './chromium.js';

const version = '1.2.3';
const phone = { width: 390, height: 844 };

/** As many counts as `--gpus 2..512` has. */
function manyRanks() {
  const counts = Array.from({ length: 9 }, (_, index) => 2 ** (index + 1));
  return overRanksPage({ ...overRanks, overRanks: counts.map((count) => rankPoint(count, 8)) });
}

const pages = {
  profile: () =>
    renderProfileHtml(
      buildProfileReport({
        states: [
          fakeState({
            allocated: [1, 2],
            reserved: [2, 3],
            allocatorLimit: 71 * GiB,
            processes: [{ pid: 4_194_305, name: 'python-with-a-long-name', usedBytes: 3 * GiB }],
          }),
        ],
        alerts: [],
        events: [],
        startedEpochMs: startEpochMs,
        endedEpochMs: startEpochMs + 2000,
        intervalSeconds: 1,
        interrupted: false,
        version,
        loadLinePercent: 90,
      }),
    ),
  run: () => renderRunHtml(runReport),
  estimate: () => renderEstimateHtml(estimatePage),
  'estimate of a program': () => {
    const phase = { phase: 'training', allocatedBytes: GiB, reservedBytes: GiB, makesPeak: true };
    const estimate = { ...estimatePage.estimate, phases: [phase] };
    return renderEstimateHtml({ ...estimatePage, estimate, program: ['python', 'train.py'] });
  },
  plan: () =>
    renderPlanHtml({
      source: { kind: 'path', path: '/srv/models/gpt2/config.json' },
      sequence: 1024,
      plan,
      budget,
      gpu: { name: 'NVIDIA H200' },
      version,
    }),
  'over ranks': () => renderOverRanksHtml(manyRanks()),
  snapshot: async () =>
    renderSnapshotHtml(analyseSnapshot(await readSnapshot(recordedPath('oom'))), {
      name: 'oom.pickle',
      version,
      scripts: snapshotScripts,
    }),
};

describe('reports on a phone', needsChromium, () => {
  const { browser } = useChromium();

  it.each(Object.entries(pages))(
    '%s is as wide as the screen, and cuts no table',
    async (_, make) => {
      const page = await browser().newPage({ viewport: phone });
      await page.setContent(await make());
      const widths = await page.evaluate(`({
        page: document.documentElement.scrollWidth,
        cut: [...document.querySelectorAll('.scroll')].filter(
          (one) => one.scrollWidth > one.clientWidth,
        ).length,
      })`);
      await page.close();
      expect(widths).toEqual({ page: phone.width, cut: 0 });
    },
  );

  it.each(Object.entries(pages))(
    '%s has names, order and contrast',
    { tags: 'rest' },
    async (_, make) => {
      const page = await browser().newPage();
      await page.setContent(await make());
      const found = await axeViolations(page);
      await page.close();
      expect(found).toEqual([]);
    },
  );

  it('over ranks has a name beside each figure, and columns whose names can be read', async () => {
    const page = await browser().newPage({ viewport: { width: 500, height: 900 } });
    await page.setContent(renderOverRanksHtml(manyRanks()));
    const seen = await page.evaluate(`({
      unnamed: [...document.querySelectorAll('tbody th, tbody td')].filter(
        (cell) => getComputedStyle(cell, '::before').content !== JSON.stringify(cell.dataset.label),
      ).length,
      columns: [...document.querySelectorAll('svg.ranks text.label')]
        .filter((one) => one.getBoundingClientRect().height >= 11 && /^\\d+$/.test(one.textContent))
        .map((one) => one.textContent),
    })`);
    await page.close();
    expect(seen).toEqual({
      unnamed: 0,
      columns: ['2', '4', '8', '16', '32', '64', '128', '256', '512'],
    });
  });
});
