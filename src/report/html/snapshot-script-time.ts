/** Memory over time by stack: stacked areas, exact at every zoom. */
export const timeScript = String.raw`
const box = $('time');
if (box && data.ticks > 1) {
  const [canvas, overlay] = box.querySelectorAll('canvas');
  const { count } = data.lives;
  const from = unpack(data.lives.from, Uint32Array), to = unpack(data.lives.to, Uint32Array);
  const size = unpack(data.lives.size, Uint32Array), stackOf = unpack(data.lives.stack, Uint16Array);
  const ticks = data.ticks;
  // How much is allocated after each event: finds the instant to show for each pixel.
  const level = new Float64Array(ticks + 1);
  for (let life = 0; life < count; life += 1) { level[from[life]] += size[life]; level[to[life]] -= size[life]; }
  for (let tick = 1; tick <= ticks; tick += 1) level[tick] += level[tick - 1];
  // Stacks by what they hold at their most; the first ones get colours.
  const most = new Float64Array(data.stacks.length), live = new Float64Array(data.stacks.length);
  const ends = new Uint32Array(count);
  for (let life = 0; life < count; life += 1) ends[life] = life;
  ends.sort((a, b) => to[a] - to[b]);
  for (let life = 0, end = 0; life < count; life += 1) {
    while (end < count && to[ends[end]] <= from[life]) { live[stackOf[ends[end]]] -= size[ends[end]]; end += 1; }
    const stack = stackOf[life];
    live[stack] += size[life];
    if (live[stack] > most[stack]) most[stack] = live[stack];
  }
  const shown = 22;
  const order = Array.from(most.keys()).filter((stack) => most[stack] > 0).sort((a, b) => most[b] - most[a]).slice(0, shown);
  window.placeOfStack = new Int16Array(data.stacks.length).fill(-1);
  order.forEach((stack, place) => { window.placeOfStack[stack] = place; });
  const layers = order.length + 1;
  let start = 0, end = ticks, cursor = -1, hits;
  const plot = { left: 62, right: 10, top: 14, bottom: 26 };
  const part = (values, tick) => values[Math.min(values.length - 1, Math.floor((tick / ticks) * values.length))];

  const draw = () => {
    const { pen, width, height } = sharp(canvas, Math.max(240, Math.min(400, window.innerHeight * 0.42)));
    const W = Math.max(10, Math.floor(width - plot.left - plot.right)), H = height - plot.top - plot.bottom;
    const span = end - start;
    // The instant with the most allocated in each pixel; none of the peaks is lost.
    const sample = new Int32Array(W);
    for (let x = 0; x < W; x += 1) {
      const a = Math.floor(start + (x / W) * span), b = Math.max(a + 1, Math.floor(start + ((x + 1) / W) * span));
      let best = a;
      for (let tick = a + 1; tick < b && tick < ticks; tick += 1) if (level[tick] > level[best]) best = tick;
      sample[x] = best;
    }
    // For every tick the first pixel whose instant is not before it.
    const first = new Int32Array(span + 2);
    for (let tick = 0, x = 0; tick < first.length; tick += 1) {
      while (x < W && sample[x] < start + tick) x += 1;
      first[tick] = x;
    }
    const heights = Array.from({ length: layers }, () => new Float64Array(W + 1));
    for (let life = 0; life < count; life += 1) {
      const a = from[life], b = to[life];
      if (b <= start || a >= end) continue;
      const p = first[a <= start ? 0 : a - start], q = b >= end ? W : first[b - start];
      if (q <= p) continue;
      const place = window.placeOfStack[stackOf[life]];
      const layer = heights[place < 0 ? layers - 1 : place];
      layer[p] += size[life];
      layer[q] -= size[life];
    }
    let top = 1;
    const total = new Float64Array(W);
    for (const layer of heights) {
      let sum = 0;
      for (let x = 0; x < W; x += 1) { sum += layer[x]; layer[x] = sum * 512; total[x] += sum * 512; }
    }
    for (let x = 0; x < W; x += 1) top = Math.max(top, total[x], part(data.reserved, sample[x]));
    top *= 1.06;
    const Y = (bytes) => plot.top + H - (bytes / top) * H;
    const X = (tick) => plot.left + ((tick - start) / span) * W;
    pen.clearRect(0, 0, width, height);
    pen.font = '12px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    const unit = top >= GiB ? GiB : MiB;
    const raw = top / unit / 5, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((f) => f * power).find((f) => f >= raw);
    pen.textAlign = 'right';
    for (let value = 0; value * unit <= top; value += step) {
      pen.fillStyle = css('--rule');
      pen.fillRect(plot.left, Y(value * unit), W, 1);
      pen.fillStyle = css('--soft');
      pen.fillText(value === 0 ? '0' : +value.toFixed(2) + (unit === GiB ? ' GiB' : ' MiB'), plot.left - 7, Y(value * unit));
    }
    const base = new Float64Array(W);
    const drawOrder = [...order.keys(), layers - 1];
    for (const place of drawOrder) {
      const layer = heights[place];
      const stack = place < order.length ? order[place] : -1;
      pen.globalAlpha = chosen.stack >= 0 && chosen.stack !== stack ? 0.28 : 1;
      pen.fillStyle = shade(place < order.length ? place : -1);
      pen.beginPath();
      pen.moveTo(plot.left, Y(base[0]));
      for (let x = 0; x < W; x += 1) { pen.lineTo(plot.left + x, Y(base[x] + layer[x])); pen.lineTo(plot.left + x + 1, Y(base[x] + layer[x])); }
      for (let x = W - 1; x >= 0; x -= 1) { pen.lineTo(plot.left + x + 1, Y(base[x])); pen.lineTo(plot.left + x, Y(base[x])); base[x] += layer[x]; }
      pen.fill();
    }
    pen.globalAlpha = 1;
    const line = (values, colour, dash) => {
      pen.strokeStyle = colour; pen.setLineDash(dash); pen.lineWidth = 1.5;
      pen.beginPath();
      for (let x = 0; x < W; x += 1) pen.lineTo(plot.left + x, Y(part(values, sample[x])));
      pen.stroke(); pen.setLineDash([]);
    };
    line(data.reserved, css('--reserved'), [5, 3]);
    if (data.lives.omitted > 0) line(data.allocated, css('--ink'), []);
    const mark = (tick, colour, text, down = 7) => {
      if (tick < start || tick > end) return;
      pen.fillStyle = colour;
      pen.fillRect(X(tick), plot.top, text ? 1.5 : 1, H);
      if (text) { pen.textAlign = X(tick) > plot.left + W - 110 ? 'right' : 'left'; pen.fillText(text, X(tick) + (pen.textAlign === 'left' ? 4 : -4), plot.top + down); }
    };
    if (data.marks.steps.filter((tick) => tick >= start && tick <= end).length <= 60) {
      pen.globalAlpha = 0.35;
      for (const tick of data.marks.steps) mark(tick, css('--soft'));
      pen.globalAlpha = 1;
    }
    mark(data.marks.peak, css('--ink'), 'peak');
    for (const tick of data.marks.outOfMemory) mark(tick, css('--critical'), 'out of memory', 22);
    pen.fillStyle = css('--soft');
    for (let at = 0; at <= 6; at += 1) {
      pen.textAlign = at === 0 ? 'left' : at === 6 ? 'right' : 'center';
      pen.fillText(tickText(secondsAt(start + (at / 6) * span), secondsAt(end) - secondsAt(start)), plot.left + (at / 6) * W, height - 11);
    }
    hits = { sample, heights, W, H, top, X, total, height };
    drawCursor();
    $('range').textContent = start === 0 && end === ticks ? 'all of the recording' : tickText(secondsAt(start), secondsAt(end) - secondsAt(start)) + ' to ' + tickText(secondsAt(end), secondsAt(end) - secondsAt(start));
  };
  // On a sheet of its own, so that moving the pointer draws one line and not all of them.
  const drawCursor = () => {
    const { pen } = sharp(overlay, hits.height);
    if (cursor < start || cursor >= end) return;
    pen.fillStyle = css('--ink');
    pen.fillRect(hits.X(cursor), plot.top, 1, hits.H);
  };
  listeners.push(draw);

  const stackAt = (x, bytes) => {
    let sum = 0;
    for (let place = 0; place < layers; place += 1) {
      sum += hits.heights[place][x];
      if (bytes < sum) return place < order.length ? order[place] : -2;
    }
    return -1;
  };
  const read = (x, bytes) => {
    const tick = hits.sample[Math.min(hits.W - 1, Math.max(0, x))];
    cursor = tick;
    const stack = bytes === undefined ? -1 : stackAt(x, bytes);
    const what = stack >= 0 ? ' · ' + bytesText(hits.heights[window.placeOfStack[stack]][x]) + ' ' + frameText(stack) : stack === -2 ? ' · many smaller stacks' : '';
    $('time-readout').textContent = 'After ' + secondsText(secondsAt(tick)) + ': ' + bytesText(hits.total[Math.min(hits.W - 1, Math.max(0, x))]) + ' allocated, ' + bytesText(part(data.reserved, tick)) + ' reserved' + what;
    return stack;
  };
  const place = (event) => {
    const edge = canvas.getBoundingClientRect();
    const x = Math.floor(event.clientX - edge.left - plot.left);
    return { x, bytes: ((plot.top + hits.H - (event.clientY - edge.top)) / hits.H) * hits.top };
  };
  const zoom = (factor, middle) => {
    const span = Math.min(ticks, Math.max(20, Math.round((end - start) * factor)));
    const share = (middle - start) / (end - start);
    start = Math.round(Math.min(ticks - span, Math.max(0, middle - span * share)));
    end = Math.min(ticks, start + span);
    draw();
  };
  const move = (share) => {
    const by = Math.round((end - start) * share);
    const span = end - start;
    start = Math.min(ticks - span, Math.max(0, start + by));
    end = start + span;
    draw();
  };
  let drag;
  canvas.addEventListener('pointerdown', (event) => { drag = { x: event.clientX, start, moved: false }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener('pointermove', (event) => {
    if (drag && Math.abs(event.clientX - drag.x) > 3) {
      drag.moved = true;
      const span = end - start;
      start = Math.round(Math.min(ticks - span, Math.max(0, drag.start - ((event.clientX - drag.x) / hits.W) * span)));
      end = start + span;
      requestAnimationFrame(draw);
      return;
    }
    const { x, bytes } = place(event);
    if (x < 0 || x >= hits.W) return;
    read(x, bytes);
    drawCursor();
  });
  canvas.addEventListener('pointerup', (event) => {
    if (drag && !drag.moved) {
      const { x, bytes } = place(event);
      const stack = x >= 0 && x < hits.W ? stackAt(x, bytes) : -1;
      if (stack >= 0) choose(stack); else choose(-1);
    }
    drag = undefined;
  });
  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    const { x } = place(event);
    zoom(event.deltaY > 0 ? 1.25 : 0.8, start + (x / hits.W) * (end - start));
  }, { passive: false });
  canvas.addEventListener('dblclick', () => { start = 0; end = ticks; draw(); });
  const middle = () => (cursor >= start && cursor < end ? cursor : (start + end) / 2);
  const acts = {
    'zoom-in': () => zoom(0.5, middle()), 'zoom-out': () => zoom(2, middle()),
    'zoom-all': () => { start = 0; end = ticks; draw(); },
    'zoom-peak': () => { const span = Math.max(20, Math.round(ticks / 20)); start = Math.round(Math.min(ticks - span, Math.max(0, data.marks.peak - span / 2))); end = Math.min(ticks, start + span); cursor = data.marks.peak; draw(); },
    left: () => move(-0.25), right: () => move(0.25),
  };
  for (const button of document.querySelectorAll('[data-act]')) button.addEventListener('click', acts[button.dataset.act]);
  box.addEventListener('keydown', (event) => {
    const keys = { '+': 'zoom-in', '=': 'zoom-in', '-': 'zoom-out', 0: 'zoom-all', p: 'zoom-peak', PageUp: 'left', PageDown: 'right' };
    if (keys[event.key]) acts[keys[event.key]]();
    else if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
      const x = cursor < 0 ? 0 : Math.round(((cursor - start) / (end - start)) * hits.W);
      const to = x + (event.key === 'ArrowLeft' ? -4 : 4);
      if (to < 0 || to >= hits.W) move(event.key === 'ArrowLeft' ? -0.25 : 0.25);
      read(Math.min(hits.W - 1, Math.max(0, to)));
      drawCursor();
    } else return;
    event.preventDefault();
  });
  const list = $('stack-list');
  order.forEach((stack, index) => {
    const item = document.createElement('li'), button = document.createElement('button');
    const colour = document.createElement('i'), bytes = document.createElement('b'), name = document.createElement('span');
    bytes.textContent = bytesText(most[stack] * 512);
    name.textContent = frameText(stack);
    name.title = (data.stacks[stack] || []).map((frame) => data.frames[frame]).join('\n');
    button.append(colour, bytes, name);
    button.addEventListener('click', () => choose(stack));
    item.append(button);
    list.append(item);
    listeners.push(() => { colour.style.background = shade(index); button.setAttribute('aria-pressed', String(chosen.stack === stack)); });
  });
}
`;
