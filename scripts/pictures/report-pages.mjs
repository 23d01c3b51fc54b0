import { execFileSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from '../steps.mjs';

/** The pages that stand alone: made by the commands, or asked of the server. */
export function reportPages(server, jobs, folder) {
  const made = (name, argv) => ({
    name: `report-${name}`,
    open: async (page) => {
      const file = join(folder, `${name}.html`);
      try {
        const words = [join(root, 'bin/plimsoll.js'), ...argv, '--html', file];
        execFileSync(process.execPath, words, { cwd: server.project, stdio: 'ignore' });
      } catch {
        // The exit code may be the answer: does not fit, a leak was found.
      }
      await page.goto(pathToFileURL(file).href);
    },
  });
  // Named by itself: a picture does not show where the checkout lies.
  const recorded = 'leak.pickle.xz';
  copyFileSync(join(root, 'bench/truth/snapshots', recorded), join(server.project, recorded));
  const model = ['llama-3-8b', '--batch', '4', '--seq', '2048', '--gpu', '4090'];
  return [
    {
      name: 'report-run',
      open: async (page) => {
        await page.goto(await server.link());
        await page.getByText('live', { exact: true }).waitFor();
        await page.goto(`${server.url}/jobs/${jobs.recovered}/report`);
      },
    },
    made('estimate', ['estimate', ...model, '--lora', '16', '--method', 'formula']),
    made('plan', ['plan', ...model, '--train', '--method', 'formula']),
    made('snapshot', ['snapshot', recorded]),
    made('profile', ['profile', '--simulate', 'leak', '--duration', '20', '--interval', '0.2']),
  ];
}
