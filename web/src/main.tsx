import { render } from 'preact';
import { signIn } from './api/client.js';
import { openHelp } from './parts/help-sheet.js';
import { connect, connection } from './state/live/live.js';
import { loginCode } from './state/page/login-link.js';
import { listenToKeys } from './state/page/shortcuts.js';
import { adoptPartColours, followSystemTheme, nextTheme } from './state/page/theme.js';
import { App } from './views/app.js';

adoptPartColours();
followSystemTheme();
listenToKeys({
  go: (hash) => {
    location.hash = hash;
  },
  theme: nextTheme,
  help: openHelp,
});
void openWithLink().then(connect);
// A link that is opened in a tab with the page already changes the fragment alone.
addEventListener('hashchange', () => {
  if (loginCode(location.hash) !== undefined) void openWithLink().then(connect);
});

/** A link that logs in works once: it leaves the address, so that a reload does not use it again. */
async function openWithLink(): Promise<void> {
  const code = loginCode(location.hash);
  if (code === undefined) return;
  history.replaceState(null, '', location.pathname + location.search);
  // Where it was used before, the page asks for the token.
  await signIn({ code }).catch(() => undefined);
}

/** When the page or the network comes back, the next try is at once. */
function tryNow(): void {
  if (!document.hidden && connection.get().phase === 'lost') connect();
}
document.addEventListener('visibilitychange', tryNow);
addEventListener('online', tryNow);

const page = document.getElementById('page');
if (page !== null) render(<App />, page);
