import { afterEach, describe, expect, it } from 'vitest';
import { needsChromium, useChromium } from './chromium.js';
import { useServed } from './served.js';
import { openPage, type WatchedPage } from './watched-page.js';

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
