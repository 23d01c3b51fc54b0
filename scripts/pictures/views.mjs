import { bundled } from '../../bench/bundled.mjs';
import { fleetOf } from '../../dist/fleet/fleet.js';

const minutes = 60;

/** Twelve nodes of eight simulated GPUs, and an hour of their past. */
async function madeFleet() {
  const { madeAnswers } = await bundled('src/fleet/made-fleet-for-tests.ts');
  const now = Date.now();
  const answers = madeAnswers(12, 8);
  const terabyte = 1024 ** 4;
  const past = Array.from({ length: minutes }, (_, minute) => minute);
  const history = {
    epochMs: past.map((minute) => now - (minutes - minute) * 60_000),
    totalBytes: past.map(() => 7.5 * terabyte),
    usedBytes: past.map((minute) => Math.round((3 + 2 * Math.sin(minute / 9)) * terabyte)),
    reservedBytes: past.map(() => 6 * terabyte),
  };
  return fleetOf({ epochMs: now, windowSeconds: 3600, answers, history });
}

/** The pages of the dashboard, each with how to get there. */
export function viewsOf(server, jobs) {
  const signedIn = async (page, hash) => {
    await page.goto(await server.link());
    await page.getByText('live', { exact: true }).waitFor();
    if (hash !== '') await page.goto(`${server.url}/${hash}`);
  };
  const at = (hash, ready) => async (page) => {
    await signedIn(page, hash);
    await ready(page);
  };
  const model = { Model: 'llama-3-8b', Batch: '4', 'Tokens of a sequence': '2048' };
  const card = { 'LoRA rank': '16', Card: '4090', Method: 'formula' };
  return [
    {
      name: 'sign-in',
      open: async (page) => {
        await page.goto(server.url);
        await page.getByRole('heading', { name: 'Sign in' }).waitFor();
      },
    },
    {
      name: 'overview',
      shown: ['desk-light', 'desk-dark', 'phone-light'],
      open: at('', (page) => page.locator('a[data-row]').first().waitFor()),
    },
    {
      name: 'queue',
      from: '#jobs-title',
      open: at('', async (page) => {
        await page.getByRole('radio', { name: /^waiting/ }).check({ force: true });
        await page.getByText('How waiting jobs are ordered').click();
      }),
    },
    { name: 'job-running', open: at(`#/job/${jobs.running}`, heading('Over its steps')) },
    { name: 'job-waiting', open: at(`#/job/${jobs.waiting}`, heading('What happened')) },
    { name: 'job-recovered', open: at(`#/job/${jobs.recovered}`, heading('What happened')) },
    { name: 'job-failed', open: at(`#/job/${jobs.failed}`, heading('What its memory held')) },
    { name: 'new-job', open: at('#/submit', heading('New job')) },
    {
      name: 'estimate',
      open: at('#/estimate', answer('Estimate', { ...model, ...card, Precision: 'bf16' })),
    },
    {
      name: 'plan',
      open: at('#/plan', answer('Plan', { ...model, Card: '4090', Method: 'formula' })),
    },
    { name: 'fleet', open: fleetView(signedIn) },
    {
      name: 'compare',
      open: at(`#/compare/${jobs.first}/${jobs.second}`, heading('Curves on the same axes')),
    },
  ];
}

/** No Prometheus runs here: the answer of one is made, and its devices say that they are simulated. */
function fleetView(signedIn) {
  return async (page) => {
    const fleet = await madeFleet();
    await page.route('**/fleet', (route) => route.fulfill({ json: fleet }));
    await signedIn(page, '#/fleet');
    await page.locator('.node-row').first().waitFor();
  };
}

function heading(name) {
  return (page) => page.getByRole('heading', { name }).first().waitFor();
}

/** Fills a form in, and asks. */
function answer(kind, fields) {
  return async (page) => {
    for (const [label, value] of Object.entries(fields)) {
      const field = page.getByLabel(label, { exact: true }).first();
      const isChoice = (await field.evaluate((one) => one.tagName)) === 'SELECT';
      await (isChoice ? field.selectOption(value) : field.fill(value));
    }
    await page.getByRole('button', { name: kind }).click();
    await page.locator('.answer').waitFor();
  };
}
