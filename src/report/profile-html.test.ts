import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import { renderProfileHtml } from './profile-html.js';
import { buildProfileReport, type ProfileInput } from './profile-report.js';
import { fakeAlert, fakeLeak, fakeState, startEpochMs } from './state-for-tests.js';

function page(parts: Partial<ProfileInput> = {}): string {
  return renderProfileHtml(
    buildProfileReport({
      states: [fakeState()],
      alerts: [],
      events: [],
      startedEpochMs: startEpochMs,
      endedEpochMs: startEpochMs + 2000,
      intervalSeconds: 1,
      interrupted: false,
      version: '1.2.3',
      loadLinePercent: 90,
      ...parts,
    }),
  );
}

/** A page in which every text from outside is `word`. */
function pageOf(word: string): string {
  const state = fakeState({
    info: { id: word, name: word, uuid: word, driver: word },
    processes: [{ pid: 1, name: word, usedBytes: GiB }],
    processLeaks: new Map([[1, fakeLeak({ found: true, reason: word })]]),
    forecast: {
      risk: 'high',
      etaSeconds: 2,
      lowSeconds: 1,
      highSeconds: 3,
      reason: word,
      recommendations: [word],
    },
    leak: { found: true, reason: word },
  });
  const at = { atSeconds: 1, epochMs: startEpochMs };
  return page({
    states: [state],
    version: word,
    alerts: [fakeAlert({ deviceId: word, message: word })],
    events: [{ type: 'vanished', device: state.info, reason: word, ...at }],
  });
}

/** Tags and attribute names, without any text or value. */
function structure(html: string): string {
  return (html.match(/<[^>]*>/g) ?? []).map((tag) => tag.replace(/"[^"]*"/g, '""')).join('\n');
}

describe('renderProfileHtml', () => {
  it('lets no text from outside become markup', () => {
    const plain = structure(pageOf('x'));
    const nasty = fc.string({
      unit: fc.constantFrom(
        '<',
        '>',
        '&',
        '"',
        "'",
        '/',
        '=',
        '-',
        '!',
        ' ',
        'x',
        '`',
        '\u0000',
        '\n',
      ),
      maxLength: 40,
    });
    fc.assert(
      fc.property(fc.oneof(nasty, fc.string({ unit: 'binary' })), (word) => {
        expect(structure(pageOf(word))).toBe(plain);
      }),
      { numRuns: 60 },
    );
  });

  it.each([
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "'; alert(1); '",
    '--></style></title><svg onload=alert(1)>',
    '&lt;b&gt;',
  ])('shows %s as it is', (word) => {
    const html = pageOf(word);
    expect(structure(html)).toBe(structure(pageOf('x')));
    expect(html).not.toContain(word);
  });

  it('loads nothing', () => {
    const html = pageOf('x');
    expect(html).not.toMatch(/https?:|\bsrc=|@import|url\((?!#)/);
    expect(html).toContain('default-src &#39;none&#39;');
  });

  it('draws the load line by name, the capacity and the forecast', () => {
    const html = page({
      states: [
        fakeState({
          used: Array.from({ length: 60 }, (_, index) => index * GiB),
          forecast: { risk: 'high', etaSeconds: 20, lowSeconds: 12, highSeconds: 31 },
        }),
      ],
    });
    expect(html).toContain('load line 90 %');
    expect(html).toContain('capacity 80.0 GiB');
    expect(html).toContain('class="cone"');
    expect(html).toContain('Estimated: full in 20 s (12 to 31 s)');
  });

  it('draws no forecast where there is none', () => {
    expect(page()).not.toContain('class="expected"');
  });

  it('draws allocated and reserved only where they are known', () => {
    expect(page()).not.toContain('class="line allocated"');
    const known = fakeState({ allocated: [1, 2, 3], reserved: [2, 3, 4], allocatorLimit: 4 * GiB });
    const html = page({ states: [known] });
    expect(html).toContain('class="line allocated"');
    expect(html).toContain('class="line reserved"');
    expect(html).toContain('allocator limit 4.0 GiB');
  });

  it('keeps the labels of capacity, load line and allocator limit apart', () => {
    const known = fakeState({ allocated: [1], reserved: [2], allocatorLimit: 71 * GiB });
    const html = page({ states: [known] });
    const [chart = ''] = /<svg class="chart narrow".*?<\/svg>/s.exec(html) ?? [];
    const placed = [...chart.matchAll(/<text x="([\d.]+)" y="([\d.]+)"([^>]*)>([^<]*)</g)]
      .map(([, x, y, more, words]) => ({ x: Number(x), y: Number(y), more, words }))
      .filter(({ words }) => /^(capacity|load line|allocator limit)/.test(words ?? ''));
    const allocator = placed.find(({ words }) => words?.startsWith('allocator'));
    const others = placed.filter((one) => one !== allocator);
    expect(others).toHaveLength(2);
    expect(allocator?.more).toContain('text-anchor="end"');
    // 71 GiB lie just under the load line at 72: the label is below its own line.
    const load = others.find(({ words }) => words?.startsWith('load line'));
    expect(allocator?.y).toBeGreaterThan((load?.y ?? 0) + 5);
  });

  it('marks a raised alert in the chart with its number in the list', () => {
    const html = page({ alerts: [fakeAlert({ atSeconds: 1, message: 'It is 76 % full.' })] });
    expect(html).toContain('<title>1. It is 76 % full.</title>');
    expect(html).toContain('<span class="mark">1</span>');
  });

  it('says of a simulated device that it is simulated', () => {
    const html = page({
      states: [fakeState({ info: { provenance: 'simulated', source: 'simulated' } })],
    });
    expect(html).toContain('<span class="tag simulated">simulated</span>');
    expect(html).toContain('these figures are not from real memory');
    expect(html).not.toContain('used, mean and range, measured');
  });

  it('does not say of a process it cannot measure that it does not grow', () => {
    const processes = [
      { pid: 1, name: 'seen', usedBytes: GiB },
      { pid: 2, name: 'unseen', usedBytes: 'unknown' as const },
    ];
    const rows = page({ states: [fakeState({ processes })] }).match(
      /<tr><td class="number">.*?<\/tr>/g,
    );
    expect(rows?.map((row) => row.includes('none found'))).toEqual([true, false]);
  });

  it('describes each chart to those who do not see it', () => {
    const html = page();
    for (const id of html.matchAll(/aria-labelledby="([^"]*)"/g)) {
      for (const name of (id[1] ?? '').split(' ')) expect(html).toContain(`id="${name}"`);
    }
    expect(html).toContain(
      'Used memory over 2.0 s, measured: between 12.5 % and 37.5 % of 80.0 GiB',
    );
  });

  it('has an id for everything only once', () => {
    const states = [fakeState(), fakeState({ info: { id: 'host' } })];
    const ids = [...page({ states }).matchAll(/ id="([^"]*)"/g)].map((match) => match[1]);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('stands with no device, and with one of which nothing is known', () => {
    expect(page({ states: [] })).toContain('No device was seen.');
    const html = page({
      states: [fakeState({ totalBytes: 'unknown', used: [], processes: 'unknown' })],
    });
    expect(html).not.toMatch(/NaN|Infinity|undefined/);
  });

  it('closes what it opens', () => {
    const open: string[] = [];
    const crossed: string[] = [];
    for (const [tag, closing, name = '', rest] of pageOf('x').matchAll(
      /<(\/?)([a-z1-6]+)([^>]*)>/gi,
    )) {
      if (name === 'meta' || rest?.endsWith('/')) continue;
      if (closing !== '/') open.push(name);
      else if (open.pop() !== name) crossed.push(tag);
    }
    expect({ open, crossed }).toEqual({ open: [], crossed: [] });
  });
});
