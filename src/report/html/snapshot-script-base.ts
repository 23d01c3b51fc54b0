/** Helpers of the page's script: the data, colours, words. Runs in a browser, without anything else. */
export const baseScript = String.raw`
const data = JSON.parse(document.getElementById('data').textContent);
const $ = (id) => document.getElementById(id);
const unpack = (text, Kind) => {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at += 1) bytes[at] = raw.charCodeAt(at);
  return new Kind(bytes.buffer);
};
const GiB = 2 ** 30, MiB = 2 ** 20;
const bytesText = (bytes) => {
  const size = Math.abs(bytes);
  if (size >= GiB) return (bytes / GiB).toFixed(2) + ' GiB';
  if (size >= MiB) return (bytes / MiB).toFixed(1) + ' MiB';
  if (size >= 1024) return (bytes / 1024).toFixed(1) + ' KiB';
  return bytes + ' B';
};
const secondsText = (seconds) =>
  seconds >= 60 ? Math.floor(seconds / 60) + ' min ' + (seconds % 60).toFixed(0) + ' s'
    : seconds >= 1 ? seconds.toFixed(2) + ' s' : (seconds * 1000).toFixed(1) + ' ms';
// As many digits as tell the ends of a stretch of so many seconds apart.
const tickText = (seconds, stretch) => {
  const digits = Math.min(6, Math.max(0, Math.ceil(-Math.log10(Math.max(stretch, 1e-6) / 6))));
  return seconds >= 60 || digits === 0 ? secondsText(seconds) : seconds.toFixed(digits) + ' s';
};
const secondsAt = (tick) => {
  const at = (tick / Math.max(1, data.ticks - 1)) * 500;
  const low = Math.min(499, Math.max(0, Math.floor(at)));
  const from = data.seconds[low], to = data.seconds[low + 1];
  return from + (to - from) * Math.min(1, Math.max(0, at - low));
};
const frameText = (stack) => {
  const frames = data.stacks[stack] || [];
  if (frames.length === 0) return 'no frames recorded';
  return data.frames[frames[0]];
};
const dark = matchMedia('(prefers-color-scheme: dark)');
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const hues = [206, 28, 152, 345, 268, 48, 184, 0, 122, 310, 228, 76];
const shade = (place) => {
  if (place < 0) return dark.matches ? '#4a5562' : '#c3c6c9';
  const hue = hues[place % hues.length];
  const round = Math.floor(place / hues.length) % 3;
  return 'hsl(' + hue + ' ' + (dark.matches ? 48 : 52) + '% ' + ((dark.matches ? 58 : 60) - round * 11) + '%)';
};
const listeners = [];
const redrawAll = () => listeners.forEach((draw) => draw());
dark.addEventListener('change', redrawAll);
new ResizeObserver(redrawAll).observe(document.querySelector('main'));
const chosen = { stack: -1 };
const choose = (stack, words) => {
  chosen.stack = stack === chosen.stack && !words ? -1 : stack;
  const panel = $('frames');
  panel.textContent = '';
  if (chosen.stack < 0) { panel.hidden = true; redrawAll(); return; }
  panel.hidden = false;
  const head = document.createElement('p');
  head.textContent = (words || 'Allocated by this stack') + ', innermost call first:';
  const list = document.createElement('ol');
  for (const frame of data.stacks[stack] || []) {
    const item = document.createElement('li');
    item.textContent = data.frames[frame];
    list.append(item);
  }
  if (!list.children.length) list.textContent = 'No frames were recorded: backward pass, C++ thread, or from before the recording.';
  panel.append(head, list);
  redrawAll();
};
const sharp = (canvas, height) => {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth || 600;
  canvas.style.height = height + 'px';
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { pen, width, height };
};
`;
