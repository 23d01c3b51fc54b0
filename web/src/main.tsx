import { render } from 'preact';
import { openHelp } from './parts/help-sheet.js';
import { connect, connection } from './state/live.js';
import { listenToKeys } from './state/shortcuts.js';
import { followSystemTheme, nextTheme } from './state/theme.js';
import { App } from './views/app.js';

followSystemTheme();
listenToKeys({
  go: (hash) => {
    location.hash = hash;
  },
  theme: nextTheme,
  help: openHelp,
});
connect();
/** Whoever comes back to the page, or to the network, does not wait for the next try. */
function tryNow(): void {
  if (!document.hidden && connection.get().phase === 'lost') connect();
}
document.addEventListener('visibilitychange', tryNow);
addEventListener('online', tryNow);

const page = document.getElementById('page');
if (page !== null) render(<App />, page);
