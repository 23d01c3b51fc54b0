import { themeNames } from '../text/charts/themes.js';
import { click, type MouseInput } from './click.js';
import type { ScreenHits } from './hits.js';
import { actionOf, type MonitorAction } from './keys.js';
import type { Pressed } from './pressed.js';
import type { ProcessRow } from './process-row.js';
import { pressInPrompt } from './prompts.js';
import { moveSelection, selectRow } from './selection.js';
import { askForSignal } from './signals.js';
import { type SortColumn, sortColumns, sortLetters } from './sort-columns.js';
import { type MonitorView, monitorLayouts } from './view.js';

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
