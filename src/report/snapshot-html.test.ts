import { Script } from 'node:vm';
import { snapshotScripts } from 'plimsoll:snapshot-page';
import { describe, expect, it } from 'vitest';
import { analyseSnapshot } from '../snapshot/analyse.js';
import { frames, madeSnapshot, recorded } from '../snapshot/made-snapshot-for-tests.js';
import { renderSnapshotHtml } from './snapshot-html.js';

const named = { name: 'job.pickle', version: '1.2.3', scripts: snapshotScripts };

describe('the page of a snapshot', () => {
  it('stands alone and runs nothing foreign', async () => {
    const page = renderSnapshotHtml(analyseSnapshot(await recorded('oom')), named);
    expect(page).not.toMatch(/(?:src|href)="(?!#)/);
    expect(page).toContain('default-src &#39;none&#39;');
    const scripts = [...page.matchAll(/<script>(.*?)<\/script>/gs)].map((match) => match[1] ?? '');
    expect(scripts).toHaveLength(1);
    // Throws where it is no program.
    expect(() => new Script(scripts[0] ?? '')).not.toThrow();
  });

  it('has the findings as text, with where they come from', async () => {
    const page = renderSnapshotHtml(analyseSnapshot(await recorded('leak')), named);
    expect(page).toContain('never freed');
    expect(page).toContain('<span class="tag simulated">simulated</span>');
    expect(page).toContain('job.pickle, device 0');
  });

  it('keeps names of the file from becoming part of the page', () => {
    const stack = frames('</script><img src=x>.py:1 <b>');
    const event = { action: 'alloc', addr: 512, size: 512, stack };
    const snapshot = madeSnapshot(
      [{ address: 512, blocks: [{ size: 512, stack }] }],
      [event, { ...event, addr: 1024 }],
    );
    const page = renderSnapshotHtml(analyseSnapshot(snapshot), { ...named, name: '<i>' });
    expect(page).not.toContain('<img');
    expect(page).not.toContain('<i>.');
    // The worker, one piece of the recording, and the page's own.
    expect(page.match(/<\/script>/g)).toHaveLength(3);
  });

  it('gives a long recording in pieces', async () => {
    const page = renderSnapshotHtml(analyseSnapshot(await recorded('leak')), named);
    const pieces = [...page.matchAll(/class="recording">([^<]*)</g)].map((match) => match[1] ?? '');
    expect(pieces.length).toBeGreaterThan(0);
    for (const piece of pieces) expect(piece).toMatch(/^[\w+/=]{1,262144}$/);
  });
});
