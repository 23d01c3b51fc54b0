/** Keys that a page without a focused field answers to. */
export interface ShortcutTargets {
  readonly go: (hash: string) => void;
  readonly theme: () => void;
  readonly help: () => void;
}

const pages: Readonly<Record<string, string>> = {
  o: '#/',
  g: '#/fleet',
  n: '#/submit',
  p: '#/plan',
  e: '#/estimate',
  v: '#/compare',
};
const pressed: Readonly<Record<string, string>> = { c: 'cancel-job', f: 'follow-log' };

/** Listens to keys; a field that is typed into keeps its keys, and so does the browser. */
export function listenToKeys({ go, theme, help }: ShortcutTargets): void {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector('dialog[open]') !== null) return;
    const { key } = event;
    const page = pages[key];
    const button = pressed[key];
    if (page !== undefined) go(page);
    else if (button !== undefined) document.getElementById(button)?.click();
    else if (key === 't') theme();
    else if (key === '?') help();
    else if (key === '/') document.getElementById('search')?.focus();
    else if (key === 'j' || key === 'k') moveRow(key === 'j' ? 1 : -1);
    else return;
    event.preventDefault();
  });
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement ||
    (target instanceof HTMLInputElement && target.type !== 'radio')
  );
}

/** From the row that has the focus to its neighbour; the first one on the screen where none has. */
function moveRow(by: number): void {
  const rows = [...document.querySelectorAll<HTMLAnchorElement>('a[data-row]')].toSorted(
    (one, other) => rowOf(one) - rowOf(other),
  );
  const active = document.activeElement;
  const at = rows.findIndex((row) => row === active);
  const seen = rows.findIndex((row) => row.getBoundingClientRect().top >= 0);
  const next = at === -1 ? rows[Math.max(0, seen)] : rows[at + by];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

function rowOf(row: HTMLAnchorElement): number {
  return Number(row.dataset['row']);
}
