import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { fleetOf } from '../../src/fleet/fleet.js';
import { madeAnswers } from '../../src/fleet/made-fleet-for-tests.js';
import { root } from '../support/project-files.js';
import { audit, axeViolations } from './audit.js';
import { needsChromium, openPage, useChromium, type WatchedPage } from './chromium.js';
import { useFakeServer, useServed } from './served.js';

/** Runs out of its heap for real where the batch is large, and prints as it goes. */
const training = `
const batch = Number(process.argv[2]);
const held = [];
console.log('batch ' + batch);
for (let step = 1; step <= 12; step++) {
  held.push(Array.from({ length: batch * 8000 }, (_, i) => i + 0.5));
  if (held.length > 6) held.shift();
  console.log('\\u001b[32mstep ' + step + '\\u001b[0m');
  await new Promise((resolve) => setTimeout(resolve, 50));
}
console.log('trained');
`;

/** Says that memory ran out, names the snapshot that it left, and fails. */
const dying = `
import { createConnection } from 'node:net';
const line = createConnection(process.env.PLIMSOLL_BRIDGE);
line.write('{"type":"hello","rank":0,"world":1,"hooks":[]}\\n');
const oom = { type: 'oom', id: 1, kind: 'cuda', message: 'full', microbatch: 1, batch: 1 };
line.write(JSON.stringify({ ...oom, snapshot: process.cwd() + '/left.pickle' }) + '\\n');
line.once('data', () => process.exit(1));
`;

/** Tells of its steps as a trainer does; memory runs out in the midst of them, and it goes on. */
const steps = `
import { existsSync } from 'node:fs';
import { createConnection } from 'node:net';
const line = createConnection(process.env.PLIMSOLL_BRIDGE);
const say = (message) => line.write(JSON.stringify(message) + '\\n');
const pause = () => new Promise((resolve) => setTimeout(resolve, 60));
const step = (number, microbatch) =>
  say({ type: 'step', who: 'trainer-0', number, microbatch, batch: 8, peakBytes: microbatch * 2 ** 24, loss: 3 / number });
say({ type: 'hello', version: 1, pid: process.pid, rank: 0, world: 1, torch: null, hooks: ['microbatch'], device: 'cpu' });
let number = 0;
// Until the test has seen it run.
while (number < 6 || !existsSync('go-on')) { step(++number, 8); await pause(); }
const answered = new Promise((resolve) => line.once('data', resolve));
say({ type: 'oom', id: 1, rank: 0, phase: 'backward', kind: 'cuda', message: 'x', askedBytes: 1, microbatch: 8, batch: 8, peakBytes: null, snapshot: null });
await answered;
for (let more = 0; more < 8; more++) { step(++number, 4); await pause(); }
line.end();
`;

describe('jobs on the dashboard', needsChromium, () => {
  const served = useServed();
  const { browser } = useChromium();
  let close: (() => Promise<void>) | undefined;
  beforeAll(() => {
    writeFileSync(join(served.command.folder(), 'train.mjs'), training);
    writeFileSync(join(served.command.folder(), 'wait.mjs'), 'setInterval(() => {}, 1000);');
    writeFileSync(join(served.command.folder(), 'die.mjs'), dying);
    writeFileSync(join(served.command.folder(), 'steps.mjs'), steps);
    const snapshot = join(root, 'bench/truth/snapshots/oom.pickle.xz');
    copyFileSync(snapshot, join(served.command.folder(), 'left.pickle'));
  });
  afterEach(async () => close?.());

  async function open(hash: string): Promise<Page> {
    const opened = await openPage(browser(), await served.newLink());
    ({ close } = opened);
    await opened.page.getByText('live', { exact: true }).waitFor();
    if (hash !== '') await opened.page.goto(`${served.url()}/${hash}`);
    return opened.page;
  }

  async function submit(page: Page, fields: Readonly<Record<string, string>>): Promise<void> {
    for (const [label, value] of Object.entries(fields)) {
      await page.getByLabel(label, { exact: true }).fill(value);
    }
    await page.getByRole('button', { name: 'Submit' }).click();
  }

  /** The words of the page that a link opens in a tab of its own. */
  async function behind(page: Page, link: string): Promise<string> {
    const [tab] = await Promise.all([
      page.context().waitForEvent('page'),
      page.getByRole('link', { name: link }).click(),
    ]);
    await tab.getByRole('heading', { level: 1 }).waitFor();
    const text = await tab.locator('body').innerText();
    await tab.close();
    return text;
  }

  /** What the command prints for people that the page does not say. */
  async function unsaid(page: Page, argv: readonly string[]): Promise<readonly string[]> {
    const { stdout } = await served.command.run(argv, {
      environment: { PLIMSOLL_HOME: served.home(), USE_GPU: 'false', COLUMNS: '200' },
    });
    const plain = (text: string) => text.replaceAll(/\s+/g, ' ').trim();
    const shown = plain(await page.locator('.answer').innerText());
    return (
      stdout
        .split('\n')
        // Marks of a list, of a part without colours, and of a heading.
        .map((line) =>
          plain(line)
            .replace(/^- |^[A-Z] (?=[a-z])/, '')
            .replace(/:$/, ''),
        )
        .filter((line) => line !== '' && !/^[A-Z]+$/.test(line))
        // The page has a form in the place of the command.
        .filter((line) => !/^Ready to paste|--keep|^plimsoll estimate /.test(line))
        .filter((line) => !shown.includes(line))
    );
  }

  it('open with a link that works once, and otherwise ask for the token', async () => {
    const link = await served.newLink();
    const opened = await openPage(browser(), link);
    await opened.page.getByText('live', { exact: true }).waitFor();
    expect(opened.page.url()).not.toContain('login');
    await opened.close();
    const again = await openPage(browser(), link);
    ({ close } = again);
    await again.page.getByRole('heading', { name: 'Sign in' }).waitFor();
    // A new link in the same tab changes nothing but the fragment.
    await again.page.goto(await served.newLink());
    await again.page.getByText('live', { exact: true }).waitFor();
    await again.page.context().clearCookies();
    await again.page.reload();
    await again.page.getByRole('heading', { name: 'Sign in' }).waitFor();
    const token = readFileSync(join(served.home(), 'token'), 'utf8');
    await again.page.getByLabel('Token').fill(token);
    await again.page.getByRole('button', { name: 'Sign in' }).click();
    await again.page.getByText('live', { exact: true }).waitFor();
  });

  it('are sent from the form, run out of memory, and come back before one’s eyes', {
    tags: 'rest',
  }, async () => {
    const page = await open('');
    await page.getByRole('navigation').getByRole('link', { name: 'New job' }).click();
    await submit(page, {
      Command: `"${process.execPath}" --max-old-space-size=64 train.mjs {batch_size}`,
      Name: 'heap',
      Memory: '1GiB',
      Batch: '256',
    });
    await page.getByRole('heading', { name: 'heap' }).waitFor();
    // Without a reload: the attempt that ran out, its rung, the next one, the end.
    await page.getByText('Out of memory (node)').first().waitFor();
    await page.getByText('Rung: smaller microbatch').first().waitFor();
    await page.locator('.job-heading .state.succeeded').waitFor();
    const rows = page.getByRole('table', { name: 'Attempts of job' }).getByRole('row');
    expect(await rows.nth(1).innerText()).toMatch(/256 × 1\s+= 256.*out of memory/s);
    await rows.last().getByText('finished').waitFor();
    const log = page.getByRole('log');
    await log.getByText('trained').first().waitFor();
    expect(await log.innerText()).toMatch(/batch 256[^]*heap out of memory[^]*trained/i);
    expect(await log.locator('.green').first().innerText()).toBe('step 1');
    await page.getByRole('link', { name: 'Overview', exact: true }).click();
    await page
      .getByRole('row', { name: /heap/ })
      .getByText(/recovered \d ×/)
      .waitFor();
  });

  it('say what their memory held when it ran out', { tags: 'rest' }, async () => {
    const page = await open('#/submit');
    await submit(page, {
      Command: `"${process.execPath}" die.mjs`,
      Name: 'dies',
      Memory: '300MiB',
    });
    await page.locator('.job-heading .state.failed').waitFor();
    const region = page.getByRole('region', { name: 'What its memory held' });
    expect(await region.getByRole('listitem').first().innerText()).toContain('asked for 96.0 MiB');
    expect(await region.innerText()).toContain('plimsoll snapshot');
    expect(await behind(page, 'Open the snapshot of attempt 1')).toContain('left.pickle');
    const report = await behind(page, 'Report');
    expect(report).toContain('Memory ran out once, and nothing was left to try.');
    // Of a program of which nothing is known, nothing is said.
    const attempts = page.getByRole('table', { name: 'Attempts of job' });
    expect(await attempts.innerText()).not.toMatch(/fp32|Precision|Checkpointing|Batch/);
    await page.getByRole('link', { name: 'Overview', exact: true }).click();
    const row = page.getByRole('row', { name: /dies/ });
    expect(await row.locator('.ran-out').innerText()).toBe('out of memory 1 ×');
    expect(await row.locator('.recovered').count()).toBe(0);
  });

  it('show throughput, memory and loss over their steps, with each recovery', {
    tags: 'rest',
  }, async () => {
    const page = await open('#/submit');
    await submit(page, {
      Command: `"${process.execPath}" steps.mjs`,
      Name: 'trains',
      Memory: '300MiB',
    });
    const charts = page.getByRole('region', { name: 'Over its steps' });
    await charts.getByText(/^\d+ steps in .* so far, measured/).waitFor();
    expect(await charts.locator('figcaption').last().innerText()).toMatch(/^Loss, now /);
    writeFileSync(join(served.command.folder(), 'go-on'), '');
    await page.locator('.job-heading .state.succeeded').waitFor();
    await charts.getByText(/^\d+ steps in [^,]*\d \w+, measured/).waitFor();
    const captions = await charts.locator('figcaption').allInnerTexts();
    expect(captions.map((text) => text.split(', at the end ')[0])).toEqual([
      'Samples a second',
      'Peak memory',
      'Loss',
    ]);
    expect(captions[1]).toContain('64.0 MiB');
    expect(Number(captions[2]?.split(' ').at(-1))).toBeLessThan(3 / 13);
    const marks = await charts.locator('.recovery title').allTextContents();
    // Across each of the three.
    expect(marks.filter((mark) => mark.startsWith('smaller-microbatch: '))).toHaveLength(3);
  });

  it('are cancelled after a question, from the list and from their page', {
    tags: 'rest',
  }, async () => {
    const page = await open('#/submit');
    const command = `"${process.execPath}" wait.mjs`;
    await page.getByText('Environment', { exact: true }).click();
    await submit(page, {
      Command: command,
      Name: 'waits',
      Memory: '200MiB',
      Batch: '8',
      'May wait for': '2h',
      Variables: 'SEED=1',
    });
    await page.locator('.job-heading .state.running').waitFor();
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: /^Cancel job/ });
    await dialog.getByRole('button', { name: 'Keep it' }).click();
    expect(await page.locator('.job-heading .state').innerText()).toBe('running');
    await page.keyboard.press('c');
    await dialog.getByRole('button', { name: 'Cancel the job' }).click();
    await page.locator('.job-heading .state.cancelled').waitFor();

    await page.getByRole('link', { name: 'Submit again' }).click();
    await page.waitForURL(/#\/submit\/\d+$/);
    await expect.poll(() => page.getByLabel('Command').inputValue()).toContain('wait.mjs');
    const again = (label: string) => page.getByLabel(label, { exact: true }).inputValue();
    expect(await again('Memory')).toBe(String(200 * 1024 ** 2));
    expect(await again('Batch')).toBe('8');
    expect(await again('May wait for')).toBe('7200s');
    expect(await again('Variables')).toBe('SEED=1');
    await page.getByLabel('Name', { exact: true }).fill('again');
    await page.getByRole('button', { name: 'Submit' }).click();
    await page.locator('.job-heading .state.running').waitFor();
    await page.keyboard.press('o');
    await page.getByRole('button', { name: 'Cancel again' }).click();
    await dialog.getByRole('button', { name: 'Cancel the job' }).click();
    await page.getByRole('row', { name: /again/ }).locator('.state.cancelled').waitFor();
  });

  it('are refused at the field that is wrong, by the page and by the server', {
    tags: 'rest',
  }, async () => {
    const page = await open('#/submit');
    await submit(page, { Command: 'python "open', Memory: 'lots' });
    const command = page.getByLabel('Command');
    await page.getByText('A quote (") is not closed.').waitFor();
    await page.getByText('"lots" is not a size.').waitFor();
    expect(await command.getAttribute('aria-invalid')).toBe('true');
    await submit(page, { Command: 'no-such-program-here', Memory: '1GiB' });
    await page.locator('.field.wrong .problem').waitFor();
    const problem = page.locator(`#${await command.getAttribute('aria-describedby')}`);
    expect(await problem.innerText()).toContain('no-such-program-here');
    await submit(page, { Command: `"${process.execPath}" wait.mjs`, Folder: 'here' });
    const folder = page.getByLabel('Folder', { exact: true });
    await page.getByText('The server does not take this.').waitFor();
    expect(await folder.getAttribute('aria-invalid')).toBe('true');
  });

  it('are still there after the server was killed, and the page finds back by itself', {
    tags: 'rest',
  }, async () => {
    const page = await open('#/submit');
    await submit(page, {
      Command: `"${process.execPath}" wait.mjs`,
      Name: 'stays',
      Memory: '200MiB',
    });
    await page.locator('.job-heading .state.running').waitFor();
    await page.goto(`${served.url()}/#/`);
    await page.getByText('live', { exact: true }).waitFor();
    await served.stop('SIGKILL');
    await page.getByText('No connection to the server.').waitFor();
    await served.start();
    await page.getByText('live', { exact: true }).waitFor();
    await page.getByText('No connection to the server.').waitFor({ state: 'hidden' });
    await page.getByRole('row', { name: /stays/ }).locator('.state.running').waitFor();
    // What happens from now on comes as before.
    await page.getByRole('button', { name: 'Cancel stays' }).click();
    await page.getByRole('button', { name: 'Cancel the job' }).click();
    const state = page.getByRole('row', { name: /stays/ }).locator('.state');
    await expect.poll(() => state.innerText()).toBe('cancelled');
  });

  it('are estimated and planned in a form', { tags: 'rest' }, async () => {
    const page = await open('#/estimate');
    await page.getByRole('button', { name: 'Estimate' }).click();
    await page.getByText('Name a model.').waitFor();
    await page.getByLabel('Model', { exact: true }).fill('/nowhere/config.json');
    await page.getByLabel('Batch', { exact: true }).fill('4');
    await page.getByRole('button', { name: 'Estimate' }).click();
    await page.getByRole('alert').getByText('/nowhere/config.json').waitFor();
    const seq = page.getByLabel('Tokens of a sequence');
    await page.getByLabel('Model', { exact: true }).fill('gpt2');
    await expect.poll(() => seq.getAttribute('placeholder')).toBe('1024');
    const precision = page.getByLabel('Precision').locator('option').first();
    expect(await precision.innerText()).toMatch(/^[a-z0-9-]+ \(default\)$/);
    const model = join(root, 'bench/truth/configs/gpt2.json');
    await page.getByLabel('Model', { exact: true }).fill(model);
    await page.getByLabel('Tokens of a sequence').fill('64');
    await page.getByLabel('Method').selectOption('formula');
    await page.getByRole('button', { name: 'Estimate' }).click();
    const peakOn = (card: string) =>
      page.getByRole('heading', { name: `Peak on one ${card} (estimated, by formula)` });
    await peakOn('NVIDIA H200').waitFor();
    // The card that is named is the one that is answered for.
    await page.getByLabel('Card', { exact: true }).fill('4090');
    await page.getByRole('button', { name: 'Estimate' }).click();
    await peakOn('NVIDIA GeForce RTX 4090').waitFor();
    await page.getByText('It fits into the 24.0 GiB of this card.').waitFor();
    const asked = [
      model,
      '--batch=4',
      '--seq=64',
      '--gpu=4090',
      '--mode=train',
      '--method=formula',
    ];
    expect(await unsaid(page, ['estimate', ...asked])).toEqual([]);
    const parts = page.getByRole('table', { name: 'What the memory is for' });
    expect(await parts.getByRole('row', { name: /^weights/ }).innerText()).toMatch(/[GM]iB/);

    // What was filled in is still there on the other page.
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'Plan', exact: true }).click();
    await page.getByLabel('Card', { exact: true }).fill('');
    await page.getByRole('button', { name: 'Plan' }).click();
    const memory = page.locator('.field.wrong', { has: page.getByLabel('Memory') });
    await memory.getByText('Give "Memory": 24GiB, or name the card with "Card".').waitFor();
    await page.getByLabel('Card', { exact: true }).fill('4090');
    await page.getByLabel('Memory', { exact: true }).fill('1KiB');
    await page.getByRole('button', { name: 'Plan' }).click();
    await page.getByRole('heading', { name: /^Nothing fits into/ }).waitFor();
    expect(await unsaid(page, ['plan', ...asked, '--memory', '1KiB'])).toEqual([]);
    await page.getByLabel('Memory', { exact: true }).fill('8GiB');
    await page.getByRole('button', { name: 'Plan' }).click();
    const fits = page.getByRole('heading', { name: /^It fits into 8\.0 GiB/ });
    await fits.waitFor();
    expect(await unsaid(page, ['plan', ...asked, '--memory', '8GiB'])).toEqual([]);
    await page.getByLabel('For', { exact: true }).last().selectOption('lightning');
    await page.getByText('accumulate_grad_batches').waitFor();
  });
});

describe('the fleet of 1,000 nodes with 8 GPUs', needsChromium, () => {
  const moments = [0, 1, 2, 3].map((minute) => 1_767_225_600_000 + minute * 60_000);
  const fleet = fleetOf({
    epochMs: Date.now(),
    windowSeconds: 3600,
    answers: madeAnswers(1000, 8),
    history: {
      epochMs: moments,
      totalBytes: [100, 100, 100, 100],
      usedBytes: [20, 30, null, 50],
      reservedBytes: [60, 60, 60, 60],
    },
  });
  const server = useFakeServer({ jobs: 1, fleet });
  const { browser } = useChromium();
  let opened: WatchedPage | undefined;
  afterEach(async () => opened?.close());

  async function open(options: BrowserContextOptions = {}) {
    opened = await openPage(browser(), `${server.url()}/#/fleet`, options);
    await opened.page.locator('.node-row').first().waitFor();
    return opened.page;
  }

  it('is told at a glance: sums, risk, leaks, unused reservations, trainings', async () => {
    const page = await open();
    const text = await page.locator('main').innerText();
    expect(text).toContain('1,000 nodes, 8,000 GPUs (8,000 simulated)');
    expect(text).toMatch(/Reserved and unused\s+\d+\.\d TiB/);
    expect(text).toContain('Jobs that reserved most above their peak');
    expect(text).toMatch(/slurm t\d+ \(pretrain\)/);
    expect(text).toContain('32 ranks on 4 nodes');
    const first = page.locator('.node-row').first();
    expect(await first.innerText()).toMatch(/risk critical[^]*full in 9\.0 s \(estimated\)/);
    const hulls = first.getByRole('img', { name: /GiB used, simulated/ });
    expect(await hulls.count()).toBe(8);
    const row = page.locator('.fleet-table td', { hasText: '3.0 MiB a second' }).first();
    expect(await row.count()).toBe(1);
  });

  it('draws few of its rows, scrolls to the last, and is searched', { tags: 'rest' }, async () => {
    const page = await open();
    await page.evaluate('scrollTo(0, document.body.scrollHeight)');
    const last = () => page.locator('.node-row').last().getAttribute('aria-rowindex');
    await expect.poll(last).toBe('1000');
    expect(await page.locator('.node-row').count()).toBeLessThan(80);
    await page.getByRole('searchbox').fill('n0042');
    await expect.poll(() => page.locator('.node-row').count()).toBe(1);
    await page.getByRole('searchbox').fill('');
    await page.getByRole('radio', { name: 'at risk' }).check({ force: true });
    const listed = () => page.getByRole('table', { name: 'Nodes' }).getAttribute('aria-rowcount');
    await expect.poll(listed).toBe('20');
    await page.getByRole('radio', { name: 'silent' }).check({ force: true });
    await page.getByText('No node is like that.').waitFor();
  });

  it('is whole on a desk and a phone, in light and dark, for axe-core too', {
    tags: 'rest',
  }, async () => {
    const page = await open({ viewport: { width: 1440, height: 900 } });
    expect(await audit(page)).toEqual([]);
    expect(await axeViolations(page)).toEqual([]);
    expect(await audit(page)).toEqual([]);
  });
});

describe('the fleet of a server without a Prometheus', needsChromium, () => {
  const server = useFakeServer({ jobs: 1 });
  const { browser } = useChromium();

  it('says how to have one', async () => {
    const { page, close } = await openPage(browser(), `${server.url()}/#/fleet`);
    await page.getByText('This server knows no Prometheus.').waitFor();
    expect(await page.locator('.empty').innerText()).toContain('plimsoll serve --prometheus');
    await close();
  });
});

describe('the page', needsChromium, () => {
  const served = useServed();
  const { browser } = useChromium();
  const opened: WatchedPage[] = [];
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((one) => one.close()));
  });

  async function added(name: string, role: string): Promise<string> {
    const { stdout } = await served.command.run(
      ['users', 'add', name, '--role', role, '--account', 'root', '--json'],
      {
        environment: { PLIMSOLL_HOME: served.home() },
      },
    );
    const { token }: { token: string } = JSON.parse(stdout);
    return token;
  }

  async function signedIn(token: string, hash = '') {
    const watched = await openPage(browser(), `${served.url()}/${hash}`);
    opened.push(watched);
    const { page } = watched;
    await page.getByLabel('Token').fill(token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('live', { exact: true }).waitFor();
    return page;
  }

  async function submitted(token: string, name: string): Promise<string> {
    const answer = await fetch(`${served.url()}/jobs`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        command: ['sh', '-c', 'echo private words; sleep 600'],
        memoryBytes: 8 * 1024 * 1024,
        gpus: 0,
        name,
      }),
    });
    const { id }: { id: string } = JSON.parse(await answer.text());
    return id;
  }

  it('offers a user what he may do, a viewer nothing, and says why', async () => {
    const [ada, bob, vic] = await Promise.all([
      added('ada', 'user'),
      added('bob', 'user'),
      added('vic', 'viewer'),
    ]);
    const id = await submitted(ada, 'of ada');
    const own = await signedIn(ada, `#/job/${id}`);
    await own.getByText('ada, user').waitFor();
    expect(await own.locator('#cancel-job').isEnabled()).toBe(true);
    await own.getByText('private words', { exact: true }).waitFor();

    const other = await signedIn(bob, `#/job/${id}`);
    await other.getByText('It belongs to ada. Its log is for its owner and for admins.').waitFor();
    const cancel = other.locator('#cancel-job');
    expect([await cancel.isEnabled(), await cancel.getAttribute('title')]).toEqual([
      false,
      'It belongs to ada.',
    ]);
    expect(await other.getByRole('link', { name: 'New job' }).count()).toBe(1);

    const viewer = await signedIn(vic);
    await viewer.getByText('vic, viewer').waitFor();
    await viewer.getByRole('link', { name: 'of ada' }).first().waitFor();
    expect(await viewer.getByRole('link', { name: 'New job' }).count()).toBe(0);
    expect(await viewer.getByRole('button', { name: /^Cancel/ }).count()).toBe(0);
    await viewer.getByRole('link', { name: 'of ada' }).first().click();
    await viewer.getByText('A viewer cannot cancel jobs or read logs.', { exact: false }).waitFor();
    expect(await viewer.locator('#cancel-job').isEnabled()).toBe(false);

    await own.locator('#cancel-job').click();
    await own.getByRole('button', { name: 'Cancel the job' }).click();
    await own.locator('.job-heading .state').getByText('cancelled').waitFor();
  });
});
