import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { themeNames } from '../../report/text/spans.js';
import { actionOf, keyBindings } from './keys.js';
import { type MonitorInput, type PressContext, press } from './press.js';
import { fakeRow } from './row-for-tests.js';
import { orderRows } from './sort-rows.js';
import { firstInSight, type MonitorView, newView, noHits, type ScreenHits } from './view.js';

const rows = [1, 2, 3, 4, 5].map((pid) => fakeRow({ pid }));
const context: PressContext = {
  rows,
  scopes: ['gpus', 'gpu:0', 'host'],
  hits: { ...noHits, tableRows: 3 },
};

function key(name: string): MonitorInput {
  return { kind: 'key', key: name };
}

function after(names: readonly string[], view: MonitorView = newView('terminal')) {
  return names.reduce<ReturnType<typeof press>>(
    (pressed, name) => press(pressed.view, key(name), context),
    { view },
  );
}

describe('the keys of the monitor', () => {
  it('are each bound once', () => {
    const names = keyBindings.flatMap(({ keys }) => keys);
    expect(new Set(names).size).toBe(names.length);
    expect(new Set(keyBindings.map(({ action }) => action)).size).toBe(keyBindings.length);
    expect(actionOf('q')).toBe('quit');
    expect(actionOf('toString')).toBeUndefined();
  });

  it('select, move by lines and pages, and stop at the ends', () => {
    expect(after(['down']).view.selected).toBe(rows[0]?.key);
    expect(after(['down', 'down', 'j']).view.selected).toBe(rows[2]?.key);
    expect(after(['down', 'page-down']).view.selected).toBe(rows[2]?.key);
    expect(after(['end', 'down', 'up']).view.selected).toBe(rows[3]?.key);
    expect(after(['home', 'up']).view.selected).toBe(rows[0]?.key);
  });

  it('sort by the next column, by a letter, and the other way round', () => {
    expect(after(['.']).view).toMatchObject({ sort: 'growth', descending: true });
    expect(after([',']).view).toMatchObject({ sort: 'device', descending: false });
    expect(after(['o', 'p']).view).toMatchObject({ sort: 'pid', descending: false });
    expect(after(['o', 'G']).view).toMatchObject({ sort: 'memory', descending: false });
    expect(after(['o', 'x']).view).toMatchObject({ sort: 'memory', prompt: undefined });
    expect(after(['r']).view.descending).toBe(false);
  });

  it('type a filter, keep it or drop it', () => {
    expect(after(['/', 'a', 'space', 'b', 'backspace', 'c', 'enter']).view).toMatchObject({
      filter: 'a c',
      prompt: undefined,
    });
    expect(after(['f', 'q', 'escape']).view).toMatchObject({ filter: '', prompt: undefined });
    expect(after(['/', 'q', 'enter', 'escape']).view.filter).toBe('');
  });

  it.each([
    ['T', 'SIGTERM'],
    ['K', 'SIGKILL'],
    ['I', 'SIGINT'],
  ])('%s sends %s only after y', (name, signal) => {
    const asked = after(['down', name]);
    expect(asked.effect).toBeUndefined();
    expect(asked.view.prompt).toMatchObject({ kind: 'confirm', signal });
    expect(press(asked.view, key('y'), context).effect).toMatchObject({
      kind: 'signal',
      signal,
      targets: [{ pid: 1, started: 7 }],
    });
    for (const other of ['n', 'enter', 'escape', 'space', name]) {
      const refused = press(asked.view, key(other), context);
      expect(refused.effect).toBeUndefined();
      expect(refused.view).toMatchObject({ prompt: undefined, message: 'Nothing was sent.' });
    }
  });

  it('send a signal to all that are tagged, each process once', () => {
    const twice = [...rows, fakeRow({ pid: 1, deviceId: 'gpu:1' })];
    const tagged = new Set([twice[0], twice[2], twice[5]].map((row) => row?.key ?? ''));
    const view = { ...newView('terminal'), tagged };
    const asked = press(view, key('T'), { ...context, rows: twice });
    const { effect } = press(asked.view, key('y'), { ...context, rows: twice });
    expect(effect).toMatchObject({ targets: [{ pid: 1 }, { pid: 3 }] });
    expect(after(['down', 'space', 'space']).view.tagged.size).toBe(2);
  });

  it('send nothing without a selection, and nothing to what is simulated', () => {
    expect(after(['K']).view).toMatchObject({ prompt: undefined });
    const simulated = { ...context, rows: [fakeRow({ pid: 1, isSimulated: true })] };
    const { view } = press(after(['down']).view, key('K'), simulated);
    expect(view.prompt).toBeUndefined();
    expect(view.message).toContain('simulated');
  });

  it('open pages and come back; q leaves a page before it leaves the monitor', () => {
    expect(after(['h']).view.page).toBe('help');
    expect(after(['h', 'q'])).toMatchObject({ view: { page: 'main' } });
    expect(after(['h', 'q']).effect).toBeUndefined();
    expect(after(['h', 'h', 'q']).effect).toEqual({ kind: 'quit' });
    expect(after(['a', 'down', 'down']).view).toMatchObject({ page: 'alerts', pageFirst: 2 });
    expect(after(['enter']).view.page).toBe('main');
    expect(after(['down', 'enter']).view.page).toBe('details');
  });

  it('go through devices, layouts and themes', () => {
    expect(after(['d']).view.scope).toBe('gpu:0');
    expect(after(['d', 'd', 'd']).view.scope).toBe('gpus');
    expect(after(['v']).view.layout).toBe('devices');
    const all = themeNames.map((_, index) => after(Array(index).fill('c')).view.theme);
    expect(all).toEqual(themeNames);
  });

  it('find the way out in every state', () => {
    for (const state of [[], ['h'], ['/'], ['down', 'K'], ['o'], ['down', 'enter']]) {
      expect(after([...state, 'ctrl-c']).effect).toEqual({ kind: 'interrupt' });
    }
  });

  it('send a signal by no series of keys without K, T or I and then y', () => {
    const name = fc.constantFrom(...keyBindings.flatMap(({ keys }) => keys), 'y', 'n', 'x');
    fc.assert(
      fc.property(fc.array(name, { maxLength: 30 }), (names) => {
        let view = newView('terminal');
        let before = '';
        for (const one of names) {
          const pressed = press(view, key(one), context);
          if (pressed.effect?.kind === 'signal') {
            expect(one).toBe('y');
            expect(['K', 'T', 'I']).toContain(before);
          }
          view = pressed.view;
          before = one;
        }
      }),
    );
  });
});

describe('the mouse', () => {
  const hits: ScreenHits = {
    titleRow: 10,
    titles: [{ column: 'user', from: 2, to: 10 }],
    tableRows: 4,
    first: 1,
    devices: [{ id: 'gpu:0', top: 1, bottom: 4, left: 0, right: 80 }],
  };
  const at = (column: number, row: number, view = newView('terminal')) =>
    press(view, { kind: 'click', column, row }, { ...context, hits }).view;

  it('selects a process, and shows it at the second click', () => {
    const view = at(30, 12);
    expect(view.selected).toBe(rows[2]?.key);
    expect(at(30, 12, view).page).toBe('details');
  });

  it('sorts by the title that is clicked, and turns it round', () => {
    const view = at(3, 10);
    expect(view).toMatchObject({ sort: 'user', descending: false });
    expect(at(3, 10, view).descending).toBe(true);
  });

  it('shows the processes of the device that is clicked, then all again', () => {
    const view = at(40, 2);
    expect(view.scope).toBe('gpu:0');
    expect(at(40, 2, view).scope).toBe('gpus');
  });

  it('confirms nothing', () => {
    const asked = after(['down', 'K']).view;
    expect(at(30, 12, asked).prompt).toMatchObject({ kind: 'confirm' });
  });

  it('scrolls with the wheel', () => {
    const wheel = (view: MonitorView) =>
      press(view, { kind: 'wheel-down', column: 0, row: 12 }, { ...context, hits }).view;
    expect(wheel(newView('terminal')).first).toBe(3);
    expect(wheel(after(['down']).view).selected).toBe(rows[3]?.key);
  });
});

describe('the order of processes', () => {
  const view = { sort: 'memory', descending: true, tree: false, filter: '' } as const;

  it('puts what is not known last in either direction', () => {
    const list = [
      fakeRow({ pid: 1, usedBytes: 'unknown' }),
      fakeRow({ pid: 2, usedBytes: 5 }),
      fakeRow({ pid: 3, usedBytes: 9 }),
    ];
    const pids = (descending: boolean) =>
      orderRows(list, [], { ...view, descending }).map(({ pid }) => pid);
    expect(pids(true)).toEqual([3, 2, 1]);
    expect(pids(false)).toEqual([2, 3, 1]);
  });

  it('filters by every word, in any part of the row', () => {
    const list = [
      fakeRow({ pid: 1, user: 'ada', command: 'python train.py' }),
      fakeRow({ pid: 2, user: 'bob', command: 'python Serve.py', job: 'job-77' }),
    ];
    const found = (filter: string) =>
      orderRows(list, [], { ...view, filter }).map(({ pid }) => pid);
    expect(found('PYTHON')).toEqual([1, 2]);
    expect(found('python bob')).toEqual([2]);
    expect(found('job-77 serve')).toEqual([2]);
    expect(found('nothing')).toEqual([]);
  });

  it('draws a tree below parents that hold no memory, and every process in it', () => {
    const list = [
      fakeRow({ pid: 30, parent: 20 }),
      fakeRow({ pid: 31, parent: 20, usedBytes: 1 }),
      fakeRow({ pid: 50, parent: 1 }),
    ];
    const shell = fakeRow({ pid: 20, parent: 1, deviceId: '', usedBytes: 'none', command: 'sh' });
    const tree = orderRows(list, [shell], { ...view, tree: true });
    expect(tree.map(({ pid, branch }) => `${branch}${pid}`)).toEqual([
      '50',
      '20',
      '├─ 30',
      '└─ 31',
    ]);
  });

  it('shows every process of a tree, whatever its parents are', () => {
    const pair = fc.record({ pid: fc.integer({ min: 1, max: 9 }), parent: fc.nat(9) });
    fc.assert(
      fc.property(fc.uniqueArray(pair, { selector: ({ pid }) => pid }), (pairs) => {
        const list = pairs.map((parts) => fakeRow(parts));
        const shown = new Set(orderRows(list, [], { ...view, tree: true }).map(({ pid }) => pid));
        expect(shown).toEqual(new Set(pairs.map(({ pid }) => pid)));
      }),
    );
  });

  it('keeps the selected row in sight and leaves no room unused', () => {
    const sight = (first: number, selected: number, height: number) =>
      firstInSight({ first, selected: rows[selected]?.key }, rows, height);
    expect(sight(0, 4, 3)).toBe(2);
    expect(sight(3, 0, 3)).toBe(0);
    expect(sight(4, 9, 3)).toBe(2);
    expect(sight(0, 0, 30)).toBe(0);
  });
});
