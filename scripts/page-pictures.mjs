// Makes the pictures of docs/dashboard.md: every page of the dashboard, and the reports, in the looks
// that the page shows. A real server with a simulated GPU runs real programs. Needs Chromium.
//
//   npm run build && npm run page-pictures [-- NAME ...]

import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openBrowser, takePictures } from './pictures/camera.mjs';
import { submitJobs } from './pictures/show-jobs.mjs';
import { startServer } from './pictures/show-server.mjs';
import { viewsOf } from './pictures/views.mjs';
import { root } from './steps.mjs';

/** The pages that stand alone: made by the commands, or asked of the server. */
function reportPages(server, jobs, folder) {
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

const folder = '/tmp/plimsoll-pictures';
const wanted = new Set(process.argv.slice(2));
const isWanted = ({ name }) => wanted.size === 0 || wanted.has(name);

rmSync(folder, { recursive: true, force: true });
mkdirSync(join(folder, 'project'), { recursive: true });
const server = await startServer(folder);
const browser = await openBrowser();
try {
  const jobs = await submitJobs(server, join(folder, 'project'));
  const views = [...viewsOf(server, jobs), ...reportPages(server, jobs, folder)].filter(isWanted);
  mkdirSync(join(root, 'docs/pages'), { recursive: true });
  for (const view of views) {
    await takePictures(browser, view, (picture, bytes) => {
      writeFileSync(join(root, 'docs/pages', picture), bytes);
      process.stdout.write(`docs/pages/${picture}: ${Math.round(bytes.length / 1024)} KB\n`);
    });
  }
} finally {
  await browser.close();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
}
