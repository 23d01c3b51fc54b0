import { connection } from '../state/live/live.js';
import { useStore } from '../state/live/store.js';
import type { Route } from '../state/page/route.js';
import { nextTheme, theme } from '../state/page/theme.js';
import { mayWork, who, whoWords } from '../state/page/who.js';
import { Emblem } from './emblem.js';
import { openHelp } from './help-sheet.js';

const places = [
  { name: 'overview', label: 'Overview', href: '#/' },
  { name: 'fleet', label: 'Fleet', href: '#/fleet' },
  { name: 'submit', label: 'New job', href: '#/submit' },
  { name: 'plan', label: 'Plan', href: '#/plan' },
  { name: 'estimate', label: 'Estimate', href: '#/estimate' },
  { name: 'compare', label: 'Compare', href: '#/compare' },
] as const;

/** Pages that viewers have, too. */
const forAll: ReadonlySet<string> = new Set(['overview', 'fleet', 'compare']);

export function TopBar({ route }: { route: Route }) {
  const { phase } = useStore(connection, (now) => now);
  const chosen = useStore(theme, (now) => now);
  const me = useStore(who, (now) => now);
  const shown = places.filter(({ name }) => forAll.has(name) || mayWork(me));
  return (
    <header class="top">
      <a class="home" href="#/" aria-label="Plimsoll, overview">
        <Emblem />
        <span>Plimsoll</span>
      </a>
      <nav aria-label="Pages">
        {shown.map(({ name, label, href }) => (
          <a key={name} href={href} aria-current={route.name === name ? 'page' : undefined}>
            {label}
          </a>
        ))}
      </nav>
      <div class="tools">
        {whoWords(me) !== '' && <span class="who">{whoWords(me)}</span>}
        <span class={`link ${phase}`}>{words[phase]}</span>
        <button type="button" class="quiet" onClick={nextTheme} title="Colours (t)">
          <span class="aside">Colours: </span>
          {chosen}
        </button>
        <button
          type="button"
          class="quiet help-key"
          onClick={openHelp}
          aria-label="Keyboard and help"
          title="Help (?)"
        >
          ?
        </button>
      </div>
    </header>
  );
}

const words = {
  live: 'live',
  connecting: 'connecting',
  lost: 'no connection',
  'signed-out': 'signed out',
} as const;
