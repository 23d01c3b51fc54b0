import type { Pressed } from './pressed.js';
import { sortColumns, sortLetters } from './sort-columns.js';
import type { MonitorView, Prompt } from './view.js';

/** Longer than any name that is looked for. */
const maxFilter = 200;

/** A key while the screen asks something. */
export function pressInPrompt(view: MonitorView, prompt: Prompt, key: string): Pressed {
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
