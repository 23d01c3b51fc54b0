import type { FlameBar } from '../answer/flame.js';
import type { FlameRequest } from '../answer/open.js';
import { type Ask, newestOnly } from './ask.js';
import { css } from './colours.js';
import { byId, choiceOf, sharp } from './elements.js';
import { bytesText } from './words.js';

const rowHeight = 22;

/** The flame graph of live bytes. Answers what to call when the chosen event or the look changed. */
export function openFlame(ask: Ask, chosenTick: () => number): { refresh(): void; draw(): void } {
  const box = byId('flame');
  const canvas = document.createElement('canvas');
  canvas.setAttribute('aria-hidden', 'true');
  box.append(canvas);
  let which: FlameRequest['which'] = 'now';
  let path: readonly number[] = [];
  let folded = true;
  let bars: readonly FlameBar[] = [];
  let at = 0;

  const load = newestOnly(async () => {
    bars = await ask('flame', { which, tick: chosenTick(), folded, path });
    at = Math.min(at, bars.length - 1);
    draw();
  });
  const refresh = () => load(undefined);
  const say = () => {
    const bar = bars[at];
    if (!bar) return;
    const share = ((bar.bytes / (bars[0]?.bytes || 1)) * 100).toFixed(1);
    byId('flame-readout').textContent = `${nameOf(bar)}: ${bytesText(bar.bytes)}, ${share} %`;
  };
  function draw(): void {
    const rows = 1 + bars.reduce((most, { depth }) => Math.max(most, depth), 0);
    const { pen, width } = sharp(canvas, rows * rowHeight);
    const [ground, ink] = [css('card'), css('ink')];
    bars.forEach((bar, index) => {
      const [x, y, w] = [bar.left * width, bar.depth * rowHeight, bar.width * width];
      pen.fillStyle = ground;
      pen.fillRect(x, y, w, rowHeight);
      pen.fillStyle = colourOf(bar);
      pen.fillRect(x + 0.5, y + 0.5, Math.max(0.5, w - 1), rowHeight - 1.5);
      if (index === at && document.activeElement === box) {
        pen.strokeStyle = ink;
        pen.lineWidth = 2;
        pen.strokeRect(x + 1, y + 1, Math.max(1, w - 2), rowHeight - 3);
      }
      if (w < 34) return;
      pen.save();
      pen.beginPath();
      pen.rect(x, y, w - 4, rowHeight);
      pen.clip();
      pen.fillStyle = bar.place === '' ? ink : '#10151b';
      pen.fillText(nameOf(bar), x + 6, y + rowHeight / 2);
      pen.restore();
    });
  }
  const go = (way: readonly number[]) => {
    path = way;
    at = 0;
    refresh();
  };
  const barAt = (event: MouseEvent) => {
    const edge = canvas.getBoundingClientRect();
    const depth = Math.floor((event.clientY - edge.top) / rowHeight);
    const share = (event.clientX - edge.left) / edge.width;
    return bars.findIndex(
      (bar) => bar.depth === depth && share >= bar.left && share < bar.left + bar.width,
    );
  };
  canvas.addEventListener('pointermove', (event) => {
    const hit = barAt(event);
    if (hit < 0) return;
    at = hit;
    say();
  });
  canvas.addEventListener('click', (event) => {
    const hit = bars[barAt(event)];
    if (hit) go(hit.path);
  });
  box.addEventListener('focus', draw);
  box.addEventListener('keydown', (event) => {
    const steps: Record<string, number> = {
      ArrowRight: 1,
      ArrowDown: 1,
      ArrowLeft: -1,
      ArrowUp: -1,
    };
    const step = steps[event.key];
    if (step !== undefined) at = Math.max(0, Math.min(bars.length - 1, at + step));
    else if (event.key === 'Enter') go(bars[at]?.path ?? []);
    else if (event.key === 'Escape') go([]);
    else return;
    event.preventDefault();
    say();
    draw();
  });
  choiceOf<FlameRequest['which']>('flame', ['now', 'peak', 'chosen'], (choice) => {
    which = choice;
    go([]);
  });
  const fold = byId('flame-fold');
  fold.addEventListener('click', () => {
    folded = !folded;
    fold.setAttribute('aria-pressed', String(!folded));
    go([]);
  });
  refresh();
  return {
    refresh: () => {
      if (which === 'chosen') go([]);
    },
    draw,
  };
}

function nameOf({ label, place }: FlameBar): string {
  return place === '' ? label : `${label} (${place})`;
}

/** Warm for the user's own calls, pale for those of libraries. */
function colourOf({ label, place, own }: FlameBar): string {
  if (place === '') return css('band');
  let sum = 0;
  for (const letter of label) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 997;
  return own
    ? `hsl(${18 + (sum % 24)} 78% ${70 - (sum % 5) * 2}%)`
    : `hsl(${205 + (sum % 30)} 28% ${76 - (sum % 5) * 2}%)`;
}
