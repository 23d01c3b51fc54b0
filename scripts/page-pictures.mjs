// Makes the pictures of docs/dashboard.md: every page of the dashboard, and the reports, in the looks
// that the page shows. A real server with a simulated GPU runs real programs. Needs Chromium.
//
//   npm run build && npm run page-pictures [-- NAME ...]
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openBrowser, takePictures } from './pictures/camera.mjs';
import { reportPages } from './pictures/report-pages.mjs';
import { submitJobs } from './pictures/show-jobs.mjs';
import { startServer } from './pictures/show-server.mjs';
import { viewsOf } from './pictures/views.mjs';
import { root } from './steps.mjs';

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
