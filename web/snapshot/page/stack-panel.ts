import type { StackFacts, StackFrame } from '../answer/open.js';
import { byId, make } from './elements.js';

/** Shows a stack right below the place where it was asked for, in view. */
export function showStack(words: string, stack: StackFacts, below: HTMLElement): void {
  const panel = byId('frames');
  panel.replaceChildren(
    make('p', '', words),
    stack.frames.length > 0
      ? frameList(stack.frames)
      : make(
          'p',
          'soft',
          'No frames were recorded: backward pass, C++ thread, or from before the recording.',
        ),
  );
  panel.hidden = false;
  below.after(panel);
  panel.scrollTop = 0;
  panel.scrollIntoView({ block: 'nearest' });
}

export function hideStack(): void {
  byId('frames').hidden = true;
}

/** The innermost call first. Calls inside libraries are folded, but for the one that allocated. */
function frameList(frames: readonly StackFrame[]): HTMLElement {
  const list = make('ol');
  let folded: StackFrame[] = [];
  const unfold = () => {
    if (folded.length === 1) list.append(...folded.map(frameItem));
    else if (folded.length > 1) list.append(foldedItem(folded));
    folded = [];
  };
  frames.forEach((frame, at) => {
    if (!frame.own && at > 0) folded.push(frame);
    else {
      unfold();
      list.append(frameItem(frame));
    }
  });
  unfold();
  return list;
}

function frameItem({ name, place, own }: StackFrame): HTMLElement {
  return make('li', own ? 'own' : '', make('b', '', name), ' ', make('span', '', place));
}

function foldedItem(frames: readonly StackFrame[]): HTMLElement {
  const libraries = [...new Set(frames.map(({ place }) => place.split('/')[0] ?? ''))];
  const summary = make(
    'summary',
    '',
    `${frames.length} calls in ${libraries.slice(0, 4).join(', ')}`,
  );
  return make('li', 'fold', make('details', '', summary, make('ol', '', ...frames.map(frameItem))));
}
