import { themeNames } from '../../report/text/spans.js';
import { count } from '../../report/words.js';
import type { ProcessRow } from './build-rows.js';
import { actionOf, type MonitorAction } from './keys.js';
import { type SortColumn, sortColumns, sortLetters } from './sort-rows.js';
import {
  type MonitorSignal,
  type MonitorView,
  monitorLayouts,
  moveSelection,
  type Prompt,
  type ScreenHits,
  type SignalTarget,
  selectRow,
} from './view.js';

/** What a person did: a key by its name, or the mouse. */
export type MonitorInput = { readonly kind: 'key'; readonly key: string } | MouseInput;

export interface PressContext {
  /** In the order in which they are shown. */
  readonly rows: readonly ProcessRow[];
  /** What `d` goes through. */
  readonly scopes: readonly string[];
  readonly hits: ScreenHits;
}

/** How far one press scrolls the command lines. */
const commandStep = 8;
/** Longer than any command line that is kept. */
const commandMost = 8192;

/**
 * The next state of the screen after a key or the mouse, and what has to be done for it.
 *
 * @example
 * press(view, { kind: 'key', key: 'q' }, context).effect; // { kind: 'quit' }
 */
export function press(view: MonitorView, input: MonitorInput, context: PressContext): Pressed {
  const quiet: MonitorView = view.message === '' ? view : { ...view, message: '' };
  if (input.kind !== 'key') return { view: click(quiet, input, context) };
  // These hold in every state: a person must always find the way out.
  if (input.key === 'ctrl-c') return { view: quiet, effect: { kind: 'interrupt' } };
  if (input.key === 'ctrl-z') return { view: quiet, effect: { kind: 'suspend' } };
  if (quiet.prompt !== undefined) return pressInPrompt(quiet, quiet.prompt, input.key);
  const action = actionOf(input.key);
  if (action === undefined) return { view: quiet };
  return quiet.page === 'main' ? onMain(quiet, action, context) : onPage(quiet, action, context);
}

/** Help, alerts and details are read, scrolled and left. */
function onPage(view: MonitorView, action: MonitorAction, { hits }: PressContext): Pressed {
  const scroll = (by: number): Pressed => ({
    view: { ...view, pageFirst: Math.max(0, view.pageFirst + by) },
  });
  const page = Math.max(1, hits.tableRows);
  const moves: Partial<Record<MonitorAction, number>> = {
    up: -1,
    down: 1,
    'page-up': -page,
    'page-down': page,
    first: -view.pageFirst,
  };
  const by = moves[action];
  if (by !== undefined) return scroll(by);
  if (action === 'theme') return { view: { ...view, theme: following(themeNames, view.theme) } };
  const isPage = action === 'help' || action === 'alerts' || action === 'details';
  // Its own key closes a page, and so does every key that means nothing here.
  return {
    view: { ...view, page: isPage && view.page !== action ? action : 'main', pageFirst: 0 },
  };
}

function onMain(view: MonitorView, action: MonitorAction, context: PressContext): Pressed {
  const { rows, hits, scopes } = context;
  const page = Math.max(1, hits.tableRows - 1);
  switch (action) {
    case 'quit':
      return { view, effect: { kind: 'quit' } };
    case 'up':
      return { view: moveSelection(view, rows, -1) };
    case 'down':
      return { view: moveSelection(view, rows, 1) };
    case 'page-up':
      return { view: moveSelection(view, rows, -page) };
    case 'page-down':
      return { view: moveSelection(view, rows, page) };
    case 'first':
      return { view: selectRow(view, rows, 0) };
    case 'last':
      return { view: selectRow(view, rows, rows.length - 1) };
    case 'left':
      return { view: { ...view, commandFrom: Math.max(0, view.commandFrom - commandStep) } };
    case 'right':
      return {
        view: { ...view, commandFrom: Math.min(commandMost, view.commandFrom + commandStep) },
      };
    case 'command-start':
      return { view: { ...view, commandFrom: 0 } };
    case 'command-end':
      return { view: { ...view, commandFrom: longestCommand(rows) } };
    case 'sort-previous':
      return { view: sortBy(view, following(sortColumns.toReversed(), view.sort)) };
    case 'sort-next':
      return { view: sortBy(view, following(sortColumns, view.sort)) };
    case 'reverse':
      return { view: { ...view, descending: !view.descending } };
    case 'sort-prompt':
      return { view: { ...view, prompt: { kind: 'sort' } } };
    case 'filter':
      return { view: { ...view, prompt: { kind: 'filter', before: view.filter } } };
    case 'tree':
      return { view: { ...view, tree: !view.tree } };
    case 'scope':
      return { view: { ...view, scope: following(scopes, view.scope), first: 0 } };
    case 'layout':
      return { view: { ...view, layout: following(monitorLayouts, view.layout) } };
    case 'theme':
      return { view: { ...view, theme: following(themeNames, view.theme) } };
    case 'mouse':
      return {
        view: { ...view, mouse: !view.mouse, message: mouseWords(!view.mouse) },
        effect: { kind: 'mouse', on: !view.mouse },
      };
    case 'tag':
      return { view: toggleTag(view, rows) };
    case 'clear':
      return { view: { ...view, selected: undefined, tagged: new Set(), filter: '' } };
    case 'details':
      return { view: showDetails(view, rows) };
    case 'help':
    case 'alerts':
      return { view: { ...view, page: action, pageFirst: 0 } };
    case 'signal-interrupt':
      return { view: askForSignal(view, rows, 'SIGINT') };
    case 'signal-terminate':
      return { view: askForSignal(view, rows, 'SIGTERM') };
    case 'signal-kill':
      return { view: askForSignal(view, rows, 'SIGKILL') };
    case 'interrupt':
    case 'suspend':
    default:
      return { view };
  }
}

/** By a column, in the direction that is usual for it. */
function sortBy(view: MonitorView, sort: SortColumn): MonitorView {
  return { ...view, sort, descending: sortLetters[sort].descends };
}

function following<T>(all: readonly T[], now: T): T {
  return all[(all.indexOf(now) + 1) % all.length] ?? now;
}

function longestCommand(rows: readonly ProcessRow[]): number {
  // The last words of the longest one stay in view.
  return Math.max(0, ...rows.map(({ command }) => command.length - 2 * commandStep));
}

function mouseWords(on: boolean): string {
  return on
    ? 'The mouse selects processes.'
    : 'The mouse is off: select text with it; m turns it on.';
}

function toggleTag(view: MonitorView, rows: readonly ProcessRow[]): MonitorView {
  if (view.selected === undefined) return { ...view, message: 'Select a process first: Down.' };
  const tagged = new Set(view.tagged);
  if (!tagged.delete(view.selected)) tagged.add(view.selected);
  return moveSelection({ ...view, tagged }, rows, 1);
}

function showDetails(view: MonitorView, rows: readonly ProcessRow[]): MonitorView {
  if (!rows.some(({ key }) => key === view.selected)) {
    return { ...view, message: 'Select a process first: Down.' };
  }
  return { ...view, page: 'details', pageFirst: 0 };
}

/** The mouse at a place of the screen, from 0. */
interface MouseInput {
  readonly kind: 'click' | 'wheel-up' | 'wheel-down';
  readonly column: number;
  readonly row: number;
}

/** Rows that one turn of the wheel moves. */
const wheelRows = 3;

/** What the mouse does to the screen; on a page or in a question the wheel scrolls, a click does nothing. */
function click(
  view: MonitorView,
  input: MouseInput,
  { rows, hits }: { readonly rows: readonly ProcessRow[]; readonly hits: ScreenHits },
): MonitorView {
  if (input.kind !== 'click') return wheel(view, input.kind === 'wheel-up' ? -1 : 1, rows);
  if (view.page !== 'main' || view.prompt !== undefined) return view;
  const title = hits.titles.find(({ from, to }) => input.column >= from && input.column < to);
  if (input.row === hits.titleRow && title !== undefined) {
    const again = view.sort === title.column;
    const descending = again ? !view.descending : sortLetters[title.column].descends;
    return { ...view, sort: title.column, descending };
  }
  const inTable = input.row - hits.titleRow - 1;
  if (hits.titleRow >= 0 && inTable >= 0 && inTable < hits.tableRows) {
    const index = hits.first + inTable;
    const row = rows[index];
    if (row === undefined) return view;
    if (row.key === view.selected) return { ...view, page: 'details', pageFirst: 0 };
    return selectRow(view, rows, index);
  }
  const device = hits.devices.find(
    ({ top, bottom, left, right }) =>
      input.row >= top && input.row < bottom && input.column >= left && input.column < right,
  );
  if (device === undefined) return view;
  return { ...view, scope: view.scope === device.id ? 'gpus' : device.id, first: 0 };
}

function wheel(view: MonitorView, sign: number, rows: readonly ProcessRow[]): MonitorView {
  if (view.page !== 'main') {
    return { ...view, pageFirst: Math.max(0, view.pageFirst + sign * wheelRows) };
  }
  if (view.prompt !== undefined) return view;
  const at = rows.findIndex(({ key }) => key === view.selected);
  // The selection moves along: a list that scrolls away from it would jump back at the next key.
  if (at !== -1) return selectRow(view, rows, at + sign * wheelRows);
  const first = Math.min(Math.max(0, rows.length - 1), Math.max(0, view.first + sign * wheelRows));
  return { ...view, first };
}

/** Longer than any name that is looked for. */
const maxFilter = 200;

/** A key while the screen asks something. */
function pressInPrompt(view: MonitorView, prompt: Prompt, key: string): Pressed {
  switch (prompt.kind) {
    case 'filter':
      return { view: typeFilter(view, prompt.before, key) };
    case 'sort':
      return { view: { ...chooseSort(view, key), prompt: undefined } };
    case 'confirm':
    default: {
      const closed: MonitorView = { ...view, prompt: undefined };
      if (key !== 'y' && key !== 'Y') return { view: { ...closed, message: 'Nothing was sent.' } };
      const { signal, targets } = prompt;
      return {
        view: { ...closed, tagged: new Set() },
        effect: { kind: 'signal', signal, targets },
      };
    }
  }
}

function typeFilter(view: MonitorView, before: string, key: string): MonitorView {
  const { filter } = view;
  if (key === 'enter') return { ...view, prompt: undefined };
  if (key === 'escape') return { ...view, prompt: undefined, filter: before };
  if (key === 'backspace') return { ...view, filter: Array.from(filter).slice(0, -1).join('') };
  if (key === 'ctrl-u') return { ...view, filter: '' };
  const typed = key === 'space' ? ' ' : key;
  // Names of other keys are longer than one character.
  if (Array.from(typed).length !== 1 || filter.length >= maxFilter) return view;
  return { ...view, filter: filter + typed, first: 0 };
}

function chooseSort(view: MonitorView, key: string): MonitorView {
  const sort = sortColumns.find((column) => sortLetters[column].letter === key.toLowerCase());
  if (sort === undefined) return view;
  const { descends } = sortLetters[sort];
  // A capital letter asks for the other direction, as in nvitop.
  return { ...view, sort, descending: key === key.toLowerCase() ? descends : !descends };
}

/** What the machine has to do for it. */
export type MonitorEffect =
  | { readonly kind: 'quit' }
  | { readonly kind: 'interrupt' }
  | { readonly kind: 'suspend' }
  | { readonly kind: 'mouse'; readonly on: boolean }
  | {
      readonly kind: 'signal';
      readonly signal: MonitorSignal;
      readonly targets: readonly SignalTarget[];
    };

export interface Pressed {
  readonly view: MonitorView;
  readonly effect?: MonitorEffect;
}

const verbs: Readonly<Record<MonitorSignal, string>> = {
  SIGINT: 'Interrupt',
  SIGTERM: 'Ask to end',
  SIGKILL: 'Kill',
};

/** Asks before a signal is sent: to all that are tagged, else to the selected process. */
function askForSignal(
  view: MonitorView,
  rows: readonly ProcessRow[],
  signal: MonitorSignal,
): MonitorView {
  const chosen = rows.filter(({ key }) =>
    view.tagged.size > 0 ? view.tagged.has(key) : key === view.selected,
  );
  if (chosen.length === 0) return { ...view, message: 'Select a process first: Down.' };
  if (chosen.some(({ isSimulated }) => isSimulated)) {
    return { ...view, message: 'This process is simulated: there is nothing to end.' };
  }
  // A process on two GPUs has two rows, and gets one signal.
  const targets = new Map(
    chosen.map(({ pid, started, command, user }): [number, SignalTarget] => [
      pid,
      { pid, started, command, user },
    ]),
  );
  return { ...view, prompt: { kind: 'confirm', signal, targets: [...targets.values()] } };
}

/** The question, short enough for one line, and what it is about. */
export function confirmWords(signal: MonitorSignal, targets: readonly SignalTarget[]): string {
  const [only] = targets;
  if (targets.length === 1 && only !== undefined) {
    return `${verbs[signal]} (${signal}) ${only.pid} of ${only.user}? y = yes, any other key = no: ${only.command}`;
  }
  const pids = targets.map(({ pid }) => pid).join(', ');
  return `${verbs[signal]} (${signal}) ${count(targets.length, 'process', 'processes')}? y = yes, any other key = no: ${pids}`;
}
