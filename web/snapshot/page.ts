/** The script of a snapshot's page. The recording lies in a worker; here things are drawn. */
import type { Opened, StackFacts, StackFrame } from './answer/open.js';
import { openWorker } from './page/ask.js';
import { type Band, openChart } from './page/chart.js';
import { onColourChange, shade } from './page/colours.js';
import { byId, make } from './page/elements.js';
import { openEventSection } from './page/event-section.js';
import { openFlame } from './page/flame.js';
import { bytesText, lifeText } from './page/words.js';

const say = (text: string) => {
  byId('loading').textContent = text;
};
const ask = openWorker(byId('worker').textContent, (why) =>
  say(`The charts could not be made: ${why}. The findings and tables below do not need them.`),
);

async function open(): Promise<void> {
  const pieces = [...document.querySelectorAll('script.recording')];
  for (const [at, piece] of pieces.entries()) {
    // One after the other, so that the page stays free in between.
    await ask('piece', piece.textContent ?? '');
    piece.remove();
    if (at % 8 === 0) say(`Opening the recording: ${Math.round((at / pieces.length) * 100)} %`);
  }
  say('Opening the recording ...');
  const opened = await ask('open', undefined);
  byId('loading').remove();
  showRecording(opened);
}

/** Errors of the worker are reported with its answers. */
const unasked = () => undefined;

function showRecording(opened: Opened): void {
  const hasTime = opened.events > 1;
  let chosen = -1;
  let flame: ReturnType<typeof openFlame> | undefined;
  const choose = (stack: number) => {
    chosen = stack;
    chart?.highlight(stack);
    events.highlight(stack);
    for (const button of document.querySelectorAll<HTMLElement>('#stack-list button')) {
      button.setAttribute('aria-pressed', String(Number(button.dataset['stack']) === stack));
    }
  };
  const pickStack = async (stack: number, below: HTMLElement) => {
    choose(stack);
    const facts = await ask('stack', stack);
    const most = opened.stacks.find((one) => one.stack === stack)?.peakBytes;
    const size = most === undefined ? '' : `, at most ${bytesText(most)} at once`;
    showStack(`Allocated by this stack${size}; innermost call first:`, facts, below);
  };
  const pickLife = async (number: number, below: HTMLElement) => {
    const life = await ask('life', number);
    choose(life.stack);
    const facts = await ask('stack', life.stack);
    showStack(`${bytesText(life.bytes)}; ${lifeText(life)}. Innermost call first:`, facts, below);
  };
  const pickBand = async (band: Band | undefined): Promise<void> => {
    const below = byId('time-readout');
    if (band === undefined) {
      choose(-1);
      hideStack();
    } else if (band.kind === 'stacks') await pickStack(band.id, below);
    else await pickLife(band.id, below);
  };

  const chart = hasTime
    ? openChart(ask, opened, {
        picked(band, tick) {
          events.choose(tick);
          pickBand(band).catch(unasked);
        },
      })
    : undefined;
  const events = openEventSection(ask, opened, {
    changed(tick) {
      chart?.mark(tick);
      flame?.refresh();
    },
    picked(life, below) {
      pickLife(life, below).catch(unasked);
    },
  });
  flame = openFlame(ask, () => events.tick());
  // Their colours are in the order of the chart, what is steady first.
  const coloured = opened.stacks.map((stack, place) => ({ ...stack, place }));
  const byPeak = coloured.toSorted((one, other) => other.peakBytes - one.peakBytes);
  const paint = byPeak.map(({ stack, title, peakBytes, place }) => {
    const colour = make('i');
    const button = make(
      'button',
      '',
      colour,
      make('b', '', bytesText(peakBytes)),
      make('span', '', title),
    );
    button.setAttribute('type', 'button');
    button.setAttribute('aria-pressed', 'false');
    button.dataset['stack'] = String(stack);
    button.addEventListener('click', () => {
      if (chosen === stack) pickBand(undefined).catch(unasked);
      else pickStack(stack, byId('time-readout')).catch(unasked);
    });
    document.getElementById('stack-list')?.append(make('li', '', button));
    return () => {
      colour.style.background = shade(place);
    };
  });
  const drawAll = () => {
    for (const one of paint) one();
    chart?.refresh();
    events.draw();
    flame?.draw();
  };
  onColourChange(drawAll);
  new ResizeObserver(drawAll).observe(byId('page'));
}

open().catch((error: unknown) => say(`The charts could not be made: ${String(error)}.`));

/** Shows a stack right below the place where it was asked for, in view. */
function showStack(words: string, stack: StackFacts, below: HTMLElement): void {
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

function hideStack(): void {
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
