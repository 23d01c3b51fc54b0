import type { BrowserContextOptions, Page } from 'playwright-core';
import { afterEach, describe, expect, it } from 'vitest';
import { audit, axeViolations, contrast, keyboardFaults } from './audit.js';
import { needsChromium, openPage, useChromium, type WatchedPage } from './chromium.js';
import { useFakeServer } from './served.js';

/** Not with `waitForFunction`: the policy of the page lets no text become code. */
async function until(page: Page, condition: string): Promise<void> {
  await expect.poll(() => page.evaluate<boolean>(condition)).toBe(true);
}

describe('the dashboard with 8 GPUs and 10,000 jobs', needsChromium, () => {
  const server = useFakeServer({ jobs: 10_000 });
  const { browser } = useChromium();
  let opened: WatchedPage | undefined;
  afterEach(async () => opened?.close());

  async function open(hash = '', options: BrowserContextOptions = {}) {
    opened = await openPage(browser(), `${server.url()}/${hash}`, options);
    await opened.page.getByText('live', { exact: true }).waitFor();
    return opened.page;
  }

  it('shows each device as a hull, marked as simulated, with its forecast', async () => {
    const page = await open();
    const hulls = page.getByRole('img', { name: /Load line at 72\.0 GiB/ });
    await hulls.nth(7).waitFor();
    expect(await hulls.count()).toBe(8);
    expect(await page.locator('article .tag.simulated').count()).toBe(8);
    const leaking = page.getByRole('article', { name: 'gpu:1' });
    expect(await leaking.innerText()).toMatch(/Full in .+ \(.+\), risk \w+, estimated/);
    await leaking.locator('canvas').waitFor();
  });

  it('moves without a reload', async () => {
    const page = await open();
    const figure = page
      .getByRole('article', { name: 'gpu:0' })
      .locator('.hull-list .figure')
      .first();
    const before = await figure.innerText();
    await expect.poll(() => figure.innerText()).not.toBe(before);
    await page
      .locator('#news')
      .getByText(/started|succeeded/)
      .waitFor();
  });

  it('lists all jobs, draws few of them, and scrolls to the last', { tags: 'rest' }, async () => {
    const page = await open();
    await until(
      page,
      "Number(document.querySelector('[role=table].jobs')?.getAttribute('aria-rowcount')) >= 10000",
    );
    const rows = page.locator('.rows [role=row]');
    await page.evaluate('scrollTo(0, document.body.scrollHeight)');
    await until(
      page,
      "Number([...document.querySelectorAll('.rows [role=row]')].at(-1)?.getAttribute('aria-rowindex')) >= 10000",
    );
    expect(await rows.count()).toBeLessThan(80);
  });

  it('is narrowed by state and searched', { tags: 'rest' }, async () => {
    const page = await open();
    await page.getByRole('radio', { name: /^waiting/ }).check({ force: true });
    // More than five of them, and no others: before the jobs have come there is none.
    await until(
      page,
      "/^(waiting,){5,}waiting$/.test([...document.querySelectorAll('.rows .state')].map((one) => one.innerText))",
    );
    const first = page.locator('.rows [role=row]').first();
    expect(await first.innerText()).toMatch(/It needs .* on a device; the most that is free is/);
    expect(await first.innerText()).toMatch(/in \d+ (s|min)[^]*place 1/);
    await page.getByRole('radio', { name: /^all/ }).check({ force: true });
    await page.getByRole('searchbox').fill('#4321');
    await until(page, "document.querySelectorAll('.rows [role=row]').length === 1");
    await page.getByRole('searchbox').fill('nothing is called this');
    await page.getByText('No job is like that.').waitFor();
  });

  it('is used with the keyboard alone', { tags: 'rest' }, async () => {
    const page = await open();
    await page.locator('a[data-row]').first().waitFor();
    await page.keyboard.press('Tab');
    expect(await page.evaluate<string>('document.activeElement.className')).toBe('skip');
    await page.keyboard.press('Enter');
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor({ state: 'hidden' });
    await page.keyboard.press('/');
    await page.keyboard.type('bert');
    expect(await page.getByRole('searchbox').inputValue()).toBe('bert');
    await page.getByRole('searchbox').fill('');
    await page.getByRole('searchbox').blur();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    const row = await page.evaluate<string>("document.activeElement.dataset.row ?? ''");
    expect(row).toMatch(/^\d+$/);
    const outline = await page.evaluate<string>(
      'getComputedStyle(document.activeElement).outlineStyle',
    );
    expect(outline).toBe('solid');
    await page.keyboard.press('Enter');
    await page.waitForURL(/#\/job\/\d+$/);
    for (const [key, heading] of [
      ['n', 'New job'],
      ['p', 'Plan'],
      ['e', 'Estimate'],
    ] as const) {
      await page.keyboard.press(key);
      await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    }
  });

  it.each(['light', 'dark'] as const)(
    'follows a %s system, and its own switch',
    { tags: 'rest' },
    async (scheme) => {
      const page = await open('', { colorScheme: scheme });
      const theme = () => page.evaluate<string>('document.documentElement.dataset.theme');
      const ground = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
      expect(await theme()).toBe(scheme);
      const before = await ground();
      const other = scheme === 'light' ? 'dark' : 'light';
      await page.emulateMedia({ colorScheme: other });
      await expect.poll(theme).toBe(other);
      expect(await ground()).not.toBe(before);
      for (const expected of ['light', 'dark', other]) {
        await page.keyboard.press('t');
        expect(await theme()).toBe(expected);
      }
      await page.keyboard.press('t');
      await page.reload();
      expect(await theme()).toBe('light');
    },
  );

  it.each(['light', 'dark'])(
    'has colours that can be read, in %s',
    { tags: 'rest' },
    async (scheme) => {
      const page = await open('', { colorScheme: scheme === 'dark' ? 'dark' : 'light' });
      const colour = (name: string) =>
        page.evaluate<string>(
          `getComputedStyle(document.documentElement).getPropertyValue('--${name}').trim()`,
        );
      const poor: string[] = [];
      const check = async (text: string, ground: string, least: number) => {
        const found = contrast(await colour(text), await colour(ground));
        if (found < least) poor.push(`${text} on ${ground}: ${found.toFixed(2)}`);
      };
      for (const text of ['ink', 'soft', 'water', 'good', 'accent', 'warning', 'critical']) {
        for (const ground of ['ground', 'card']) await check(text, ground, 4.5);
      }
      await check('soft', 'chip', 4.5);
      await check('ink', 'chip', 4.5);
      await check('on-mark', 'critical', 4.5);
      await check('edge', 'ground', 3);
      for (let hue = 0; hue < 10; hue++) await check(`hue-${hue}`, 'card', 3);
      expect(poor).toEqual([]);
    },
  );

  const faultsAt = async (hash: string, width: number) => {
    const page = await open(hash, { viewport: { width, height: 800 } });
    if (hash.startsWith('#/job')) {
      await page.getByRole('heading', { name: 'What happened' }).waitFor();
      await page.getByRole('heading', { name: 'Changes of the environment' }).waitFor();
    }
    if (hash === '') await page.locator('a[data-row]').first().waitFor();
    return audit(page);
  };
  it.each([
    ['', 1440],
    ['#/job/9000', 360],
    ['#/submit', 360],
    ['#/plan', 360],
    ['#/estimate', 1280],
    ['#/compare', 360],
  ])('has names, order and room: %s at %i px', async (hash, width) => {
    expect(await faultsAt(hash, width)).toEqual([]);
  });
  it.each([
    ['', 360],
    ['#/submit', 1280],
  ])('has names, order and room: %s at %i px', { tags: 'rest' }, async (hash, width) => {
    expect(await faultsAt(hash, width)).toEqual([]);
  });

  it('cuts no table and no reason at 1280 px', async () => {
    expect(await faultsAt('', 1280)).toEqual([]);
    const page = opened?.page;
    if (page === undefined) throw new Error('the page is open');
    await page.getByRole('radio', { name: /^waiting/ }).check({ force: true });
    await until(page, "document.querySelectorAll('.rows .why').length > 5");
    expect(await audit(page)).toEqual([]);
    await page.goto(`${server.url()}/#/job/9000`);
    await page.getByRole('heading', { name: 'Changes of the environment' }).waitFor();
    expect(await audit(page)).toEqual([]);
    await page.goto(`${server.url()}/#/plan`);
    await page.getByLabel('Model', { exact: true }).fill('gpt2');
    await page.getByLabel('Batch', { exact: true }).fill('8');
    await page.getByRole('button', { name: 'Plan' }).click();
    await page.locator('table.options').waitFor();
    expect(await audit(page)).toEqual([]);
  });

  /** The first job in a state, as the server lists it. */
  async function jobIn(state: string): Promise<string> {
    const answer = await fetch(`${server.url()}/jobs?state=${state}&limit=1&order=oldest`);
    const { jobs }: { jobs: readonly { id: string }[] } = JSON.parse(await answer.text());
    return jobs[0]?.id ?? '';
  }

  const views: readonly (readonly [name: string, go: (page: Page) => Promise<void>])[] = [
    [
      'overview',
      async (page) => {
        await page.locator('a[data-row]').first().waitFor();
        await page.getByText('How waiting jobs are ordered').click();
        await page.getByRole('searchbox').fill('#4321');
      },
    ],
    ...['running', 'waiting', 'succeeded', 'failed'].map(
      (state) =>
        [
          `a job that is ${state}`,
          async (page: Page) => {
            await page.goto(`${server.url()}/#/job/${await jobIn(state)}`);
            await page.getByRole('heading', { name: 'What happened' }).waitFor();
          },
        ] as const,
    ),
    ['new job', async (page) => void (await page.goto(`${server.url()}/#/submit`))],
    ...(['Estimate', 'Plan'] as const).map(
      (kind) =>
        [
          kind.toLowerCase(),
          async (page: Page) => {
            await page.goto(`${server.url()}/#/${kind.toLowerCase()}`);
            await page.getByLabel('Model', { exact: true }).fill('gpt2');
            await page.getByLabel('Batch', { exact: true }).fill('8');
            await page.getByRole('button', { name: kind }).click();
            await page.getByRole('heading', { name: /^It fits/ }).waitFor();
          },
        ] as const,
    ),
    [
      'two jobs compared',
      async (page) => {
        const [one, other] = [await jobIn('succeeded'), await jobIn('failed')];
        await page.goto(`${server.url()}/#/compare/${one}/${other}`);
        await page.getByRole('heading', { name: 'Curves on the same axes' }).waitFor();
        expect(await page.getByRole('img', { name: /^Loss of #/ }).count()).toBe(1);
      },
    ],
    [
      'the sheet of keys',
      async (page) => {
        await page.keyboard.press('?');
        await page.getByRole('dialog', { name: 'Keys' }).waitFor();
      },
    ],
  ];

  it.each(views)(
    'stands the rules of axe-core and the Tab key: %s',
    { tags: 'rest' },
    async (name, go) => {
      const page = await open();
      await go(page);
      expect(await axeViolations(page)).toEqual([]);
      // A dialog keeps the focus to itself.
      if (name !== 'the sheet of keys') expect(await keyboardFaults(page)).toEqual([]);
    },
  );

  it('shows in a form what the server takes for empty fields, and offers names', {
    tags: 'rest',
  }, async () => {
    const page = await open('#/estimate');
    const seq = page.getByLabel('Tokens of a sequence');
    const first = (label: string) => page.getByLabel(label).locator('option').first().innerText();
    expect(await seq.getAttribute('placeholder')).toBe('from the model');
    await page.getByLabel('Model', { exact: true }).fill('gpt2');
    await expect.poll(() => seq.getAttribute('placeholder')).toBe('2048');
    expect(await first('Precision')).toBe('bf16 (default)');
    expect(await page.getByLabel('Card').getAttribute('placeholder')).toBe('NVIDIA H100');
    expect(await page.locator('datalist option[value="openai-community/gpt2"]').count()).toBe(1);
    await page.goto(`${server.url()}/#/plan`);
    await expect.poll(() => seq.getAttribute('placeholder')).toBe('1024');
    expect(await first('Precision')).toBe('chosen by the plan');
    await page.goto(`${server.url()}/#/submit`);
    await page.getByText('Estimate the memory from a model').click();
    expect(await first('Precision')).toBe('default');
    await page.getByLabel('Model', { exact: true }).fill('gpt2');
    await expect.poll(() => first('Precision')).toBe('bf16 (default)');
  });

  it('shows that an answer takes long, an answer by formula meanwhile, and can be stopped', {
    tags: 'rest',
  }, async () => {
    const page = await open('#/plan');
    await page.getByLabel('Model', { exact: true }).fill('slow');
    await page.getByRole('button', { name: 'Plan' }).click();
    await page.getByRole('progressbar').waitFor();
    await page.getByRole('heading', { name: /^It fits/ }).waitFor();
    await page.getByText('The answer below is by formula.').waitFor();
    expect(await audit(page)).toEqual([]);
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByRole('progressbar').waitFor({ state: 'hidden' });
    expect(await page.getByRole('button', { name: 'Plan' }).isEnabled()).toBe(true);
  });

  it('says that a job or a page is not there', async () => {
    const page = await open('#/job/999999');
    const said = () => page.locator('.empty').innerText();
    await expect.poll(said).toContain('There is no job 999999.');
    await page.goto(`${server.url()}/#/nowhere`);
    await expect.poll(said).toContain('There is no such page.');
  });
});

describe('the dashboard of a server without jobs', { ...needsChromium, tags: 'rest' }, () => {
  const server = useFakeServer({ jobs: 0 });
  const { browser } = useChromium();

  it('says that there are none yet', async () => {
    const { page, close } = await openPage(browser(), `${server.url()}/`);
    await expect.poll(() => page.getByText('No jobs yet.').count()).toBe(1);
    await close();
  });
});

describe('the dashboard of a server with a token', needsChromium, () => {
  const token = 'a-token-that-is-long-enough-for-anyone';
  const server = useFakeServer({ jobs: 5, token });
  const { browser } = useChromium();

  it('asks for it, refuses a wrong one, and remembers the right one', async () => {
    const { page, close } = await openPage(browser(), `${server.url()}/`);
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(await audit(page)).toEqual([]);
    expect(await axeViolations(page)).toEqual([]);
    expect(await keyboardFaults(page)).toEqual([]);
    await page.getByLabel('Token').fill('wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').waitFor();
    await page.getByLabel('Token').fill(token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('article', { name: 'gpu:0' }).waitFor();
    await page.reload();
    await page.getByRole('article', { name: 'gpu:0' }).waitFor();
    await close();
  });
});
