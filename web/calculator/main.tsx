import { render } from 'preact';
import { adoptPartColours, followSystemTheme } from '../src/state/page/theme.js';
import { Calculator } from './page.js';

adoptPartColours();
followSystemTheme();

const page = document.getElementById('page');
if (page !== null) render(<Calculator />, page);

// From a web server the page also opens without a network, once it was loaded.
if (location.protocol.startsWith('http') && 'serviceWorker' in navigator) {
  navigator.serviceWorker.register('./offline.js').catch(() => undefined);
}
