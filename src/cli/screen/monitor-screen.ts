import { renderScreen } from '../../report/text/screen/screen.js';
import { systemClock } from '../../time/clock.js';
import { textStyle } from '../io.js';
import type { Stop } from '../stop.js';
import { openWatching, type Watching, type WatchingOptions } from '../watching/watching.js';
import { openScreen, type Screen } from './screen.js';
import { openTerminal, type ScreenTerminal } from './terminal.js';
import { throttle } from './throttle.js';

export interface MonitorScreenOptions extends WatchingOptions {
  readonly stop: Stop;
  readonly version: string;
  readonly hostname: string;
}

/** Faster than this is unreadable, whatever the sampling interval is. */
const redrawMs = 100;
/** The clock on the screen goes on between samples that are far apart. */
const leastOftenMs = 1000;
/** What is told of the past on the screen. */
const shownNews = 100;

/** Draws until the watch ends or the person leaves; the terminal is given back in every case. */
export async function monitorOnScreen(options: MonitorScreenOptions): Promise<void> {
  const { io, stop } = options;
  // What cannot start should say so on the plain terminal.
  const watching = await openWatching(options);
  const terminal = openTerminal(io);
  const screen = openScreen(terminal);
  const drawing = throttle(() => draw(screen, watching, options, terminal), redrawMs);
  const giveBack = () => screen.leave();
  const unlisten = terminal.listen({
    key: (key) => press(key, stop, suspend),
    resize() {
      screen.forget();
      drawing.ask();
    },
    resume() {
      if (stop.signal.aborted) return;
      screen.enter();
      drawing.ask();
    },
    suspend,
    gone: () => stop.stop('SIGHUP'),
  });
  function suspend(): void {
    screen.leave();
    terminal.suspend();
  }
  // At once, not when the last reading is in: a hung driver must not hold the terminal.
  stop.signal.addEventListener('abort', giveBack, { once: true });
  // Nor may a way out that runs none of our code below.
  process.once('exit', giveBack);
  const steady = setInterval(() => drawing.ask(), leastOftenMs);
  try {
    if (!stop.signal.aborted) screen.enter();
    drawing.ask();
    for await (const event of watching.events()) {
      if (event.type !== 'late') drawing.ask();
    }
  } finally {
    clearInterval(steady);
    drawing.cancel();
    unlisten();
    giveBack();
    process.off('exit', giveBack);
    for (const note of await watching.close()) io.stderr.write(`plimsoll: ${note}\n`);
  }
}

function press(key: string, stop: Stop, suspend: () => void): void {
  if (key === '\u0003') stop.stop('SIGINT');
  else if (key === '\u001A') suspend();
  else if (key === 'q' || key === 'Q') stop.stop();
}

function draw(
  screen: Screen,
  watching: Watching,
  { io, settings, version, hostname }: MonitorScreenOptions,
  terminal: ScreenTerminal,
): void {
  const states = watching.states();
  const model = {
    states,
    alerts: watching.recorder.alerts.slice(-shownNews),
    events: watching.recorder.events.slice(-shownNews),
    nowSeconds: Math.max(0, ...states.map((state) => state.latest.atSeconds)),
    epochMs: systemClock.epochMs(),
    hostname,
    intervalSeconds: settings.intervalSeconds,
    loadLinePercent: settings.loadLinePercent,
    version,
  };
  screen.draw(renderScreen(model, terminal.size(), textStyle(io)));
}
