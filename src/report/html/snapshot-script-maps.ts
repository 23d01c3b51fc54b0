/** The flame graph of live bytes, and the map of segments. */
export const mapsScript = String.raw`
const flame = $('flame');
const flameState = { which: 'now', path: [] };
const flameRoot = () => (flameState.which === 'peak' && data.flame.peak) || data.flame.now;
let flameNodes = [], flameAt = 0;
const drawFlame = () => {
  flame.textContent = '';
  flameNodes = [];
  let node = flameRoot();
  const rows = [];
  const ancestors = [];
  for (const index of flameState.path) { ancestors.push(node); node = node.children[index] || node; }
  const add = (one, depth, left, width, path) => {
    if (width < 0.0012) return;
    const label = one.frame < 0 ? 'all' : data.frames[one.frame];
    const element = document.createElement('div');
    element.textContent = width > 0.03 ? label : '';
    element.title = label + '\n' + bytesText(one.bytes) + ', ' + ((one.bytes / flameRoot().bytes) * 100).toFixed(1) + ' %';
    element.style.left = left * 100 + '%';
    element.style.width = width * 100 + '%';
    element.style.top = depth * 22 + 'px';
    const hue = one.frame < 0 ? 210 : (one.frame * 47) % 60;
    element.style.background = one.frame < 0 ? css('--band') : 'hsl(' + (18 + hue * 0.6) + ' 78% ' + (74 - (one.frame % 5) * 3) + '%)';
    if (one.frame < 0) element.style.color = css('--ink');
    element.addEventListener('click', () => { flameState.path = path; flameAt = 0; drawFlame(); });
    element.addEventListener('pointerenter', () => { $('flame-readout').textContent = element.title.replace('\n', ': '); });
    flame.append(element);
    flameNodes.push({ element, path, depth });
    rows.push(depth);
  };
  ancestors.forEach((one, depth) => add(one, depth, 0, 1, flameState.path.slice(0, depth)));
  const walk = (one, depth, left, width, path) => {
    add(one, depth, left, width, path);
    let at = left;
    one.children.forEach((child, index) => {
      const share = width * (child.bytes / one.bytes);
      if (share >= 0.0012) walk(child, depth + 1, at, share, [...path, index]);
      at += share;
    });
  };
  walk(node, ancestors.length, 0, 1, flameState.path);
  flame.style.height = (rows.reduce((deepest, row) => Math.max(deepest, row), 0) + 1) * 22 + 'px';
};
const pickFlame = (at) => {
  flameAt = Math.max(0, Math.min(flameNodes.length - 1, at));
  flameNodes.forEach((one, index) => one.element.classList.toggle('chosen', index === flameAt));
  const picked = flameNodes[flameAt];
  if (picked) $('flame-readout').textContent = picked.element.title.replace('\n', ': ');
};
flame.addEventListener('keydown', (event) => {
  if (event.key === 'ArrowRight' || event.key === 'ArrowDown') pickFlame(flameAt + 1);
  else if (event.key === 'ArrowLeft' || event.key === 'ArrowUp') pickFlame(flameAt - 1);
  else if (event.key === 'Enter' && flameNodes[flameAt]) { flameState.path = flameNodes[flameAt].path; drawFlame(); pickFlame(flameState.path.length); }
  else if (event.key === 'Escape') { flameState.path = []; drawFlame(); pickFlame(0); }
  else return;
  event.preventDefault();
});
for (const button of document.querySelectorAll('[data-flame]')) {
  button.addEventListener('click', () => {
    flameState.which = button.dataset.flame;
    flameState.path = [];
    for (const other of document.querySelectorAll('[data-flame]')) other.setAttribute('aria-pressed', String(other === button));
    drawFlame();
  });
}
listeners.push(drawFlame);

const map = $('segment-map');
if (map && data.segments.length > 0) {
  const canvas = map.querySelector('canvas');
  const rowHeight = 17, left = 96;
  const largest = data.segments.reduce((most, { bytes }) => Math.max(most, bytes), 1);
  // A square root, so that segments of 2 MiB stay visible beside those of GiB.
  const widthOf = (bytes, width) => Math.max(24, Math.sqrt(bytes / largest) * width);
  let segmentAt = -1;
  const draw = () => {
    const { pen, width, height } = sharp(canvas, data.segments.length * rowHeight + 8);
    pen.clearRect(0, 0, width, height);
    pen.font = '11.5px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    pen.textAlign = 'right';
    const room = width - left - 12;
    data.segments.forEach((segment, row) => {
      const y = 4 + row * rowHeight, w = widthOf(segment.bytes, room);
      pen.fillStyle = row === segmentAt ? css('--ink') : css('--soft');
      pen.fillText(bytesText(segment.bytes), left - 8, y + rowHeight / 2 - 1);
      pen.fillStyle = css('--chip');
      pen.fillRect(left, y, w, rowHeight - 4);
      let at = 0;
      for (let block = 0; block < segment.blocks.length; block += 2) {
        const bytes = segment.blocks[block], stack = segment.blocks[block + 1];
        if (stack >= 0) {
          pen.globalAlpha = chosen.stack >= 0 && chosen.stack !== stack ? 0.3 : 1;
          pen.fillStyle = shade(window.placeOfStack ? window.placeOfStack[stack] : -1);
          pen.fillRect(left + (at / segment.bytes) * w, y, Math.max(0.6, (bytes / segment.bytes) * w - 0.4), rowHeight - 4);
        }
        at += bytes;
      }
      pen.globalAlpha = 1;
    });
  };
  listeners.push(draw);
  const blockAt = (event) => {
    const edge = canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - edge.top - 4) / rowHeight);
    const segment = data.segments[row];
    if (!segment) return undefined;
    const w = widthOf(segment.bytes, canvas.clientWidth - left - 12);
    const wanted = ((event.clientX - edge.left - left) / w) * segment.bytes;
    let at = 0;
    for (let block = 0; block < segment.blocks.length; block += 2) {
      at += segment.blocks[block];
      if (wanted < at && wanted >= 0) return { row, segment, bytes: segment.blocks[block], stack: segment.blocks[block + 1] };
    }
    return { row, segment };
  };
  const words = (segment) => {
    let free = 0;
    for (let block = 0; block < segment.blocks.length; block += 2) if (segment.blocks[block + 1] < 0) free += segment.blocks[block];
    return segment.address + ', ' + bytesText(segment.bytes) + ' (' + segment.what + '), ' + bytesText(free) + ' free';
  };
  canvas.addEventListener('pointermove', (event) => {
    const hit = blockAt(event);
    if (!hit) return;
    const block = hit.bytes === undefined ? '' : ' · ' + bytesText(hit.bytes) + (hit.stack < 0 ? ' free' : ' ' + frameText(hit.stack));
    $('map-readout').textContent = words(hit.segment) + block;
  });
  canvas.addEventListener('click', (event) => {
    const hit = blockAt(event);
    choose(hit && hit.stack >= 0 ? hit.stack : -1);
  });
  map.addEventListener('keydown', (event) => {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
    segmentAt = Math.max(0, Math.min(data.segments.length - 1, segmentAt + (event.key === 'ArrowDown' ? 1 : -1)));
    $('map-readout').textContent = words(data.segments[segmentAt]);
    map.scrollTop = Math.max(0, segmentAt * rowHeight - map.clientHeight / 2);
    draw();
    event.preventDefault();
  });
}
redrawAll();
`;
