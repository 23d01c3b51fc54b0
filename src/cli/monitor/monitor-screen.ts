import { uptime } from 'node:os';
import { machineRoots } from '../../device/roots.js';
import type { ScreenHits } from '../../report/monitor/hits.js';
import { noHits } from '../../report/monitor/hits.js';
import { type MonitorInput, press } from '../../report/monitor/press.js';
import type { MonitorEffect } from '../../report/monitor/pressed.js';
import { type MonitorView, newView } from '../../report/monitor/view.js';
import type { ThemeName } from '../../report/text/charts/themes.js';
import { renderScreen } from '../../report/text/screen/screen.js';
import { openUserNames } from '../../run/processes/user-names.js';
import { systemClock } from '../../time/clock.js';
import { textStyle } from '../io.js';
import { openScreen, type Screen } from '../screen/screen.js';
import { openTerminal, type ScreenTerminal } from '../screen/terminal.js';
import { throttle } from '../screen/throttle.js';
import type { Stop } from '../stop.js';
import { openWatching, type Watching, type WatchingOptions } from '../watching/watching.js';
import { KeyDecoder } from './key-decoder.js';
import { type Listed, listProcesses } from './list-processes.js';
import { ProcessWatch } from './process-watch.js';
import { sendSignal } from './send-signal.js';

export interface MonitorScreenOptions extends WatchingOptions {
  readonly stop: Stop;
  readonly version: string;
  readonly hostname: string;
  readonly theme: ThemeName;
}

/** Keys are answered at once, but a held key draws no more often than this. */
const redrawMs = 40;
/** What nobody asked for changes this seldom: a screen that flickers is not read. */
const steadyMs = { least: 500, most: 1000 } as const;
/** While devices appear one after another, each is shown as it comes. */
const startingMs = 2000;
/** Esc alone is told from a sequence by what follows it within this time. */
const escapeMs = 50;
/** What is told of the past on the screen. */
const shownNews = 100;

/** Draws until the watch ends or the person leaves; the terminal is given back in every case. */
export async function monitorOnScreen(options: MonitorScreenOptions): Promise<void> {
  const { io, stop } = options;
  // What cannot start should say so on the plain terminal.
  const watching = await openWatching(options);
  const terminal = openTerminal(io);
  const screen = openScreen(terminal);
  const live = new LiveScreen(options, watching, terminal, screen);
  const giveBack = () => screen.leave();
  const unlisten = terminal.listen({
    input: (text) => live.input(text),
    resize() {
      screen.forget();
      live.drawSoon();
    },
    resume() {
      if (stop.signal.aborted) return;
      live.enter();
    },
    suspend: () => live.suspend(),
    gone: () => stop.stop('SIGHUP'),
  });
  // At once, not when the last reading is in: a hung driver must not hold the terminal.
  stop.signal.addEventListener('abort', giveBack, { once: true });
  // Nor may a way out that runs none of our code below.
  process.once('exit', giveBack);
  const { intervalSeconds } = options.settings;
  const steady = setInterval(
    () => live.drawSoon(),
    Math.min(steadyMs.most, Math.max(steadyMs.least, intervalSeconds * 1000)),
  );
  const begin = performance.now();
  try {
    if (!stop.signal.aborted) live.enter();
    for await (const event of watching.events()) {
      const isStarting = performance.now() - begin < startingMs;
      if (event.type === 'sample' ? isStarting : event.type !== 'late') live.drawSoon();
    }
  } finally {
    clearInterval(steady);
    live.close();
    unlisten();
    giveBack();
    process.off('exit', giveBack);
    for (const note of await watching.close()) io.stderr.write(`plimsoll: ${note}\n`);
  }
}

/** The state of the screen between one drawing and the next. */
class LiveScreen {
  readonly #options: MonitorScreenOptions;
  readonly #watching: Watching;
  readonly #terminal: ScreenTerminal;
  readonly #screen: Screen;
  readonly #decoder = new KeyDecoder();
  readonly #processes = new ProcessWatch({
    procRoot: machineRoots.proc,
    userName: openUserNames(),
    seconds: () => systemClock.seconds(),
  });
  readonly #drawing = throttle(() => this.#draw(), redrawMs);
  #view: MonitorView;
  #listed: Listed = { rows: [], scope: 'gpus', scopes: [], noRows: '' };
  #hits: ScreenHits = noHits;
  #escape: NodeJS.Timeout | undefined;

  constructor(
    options: MonitorScreenOptions,
    watching: Watching,
    terminal: ScreenTerminal,
    screen: Screen,
  ) {
    this.#options = options;
    this.#watching = watching;
    this.#terminal = terminal;
    this.#screen = screen;
    this.#view = newView(options.theme);
  }

  enter(): void {
    this.#screen.enter();
    this.#screen.mouse(this.#view.mouse);
    this.drawSoon();
  }

  drawSoon(): void {
    this.#drawing.ask();
  }

  close(): void {
    this.#drawing.cancel();
    clearTimeout(this.#escape);
  }

  suspend(): void {
    this.#screen.leave();
    this.#terminal.suspend();
  }

  input(text: string): void {
    clearTimeout(this.#escape);
    for (const input of this.#decoder.feed(text)) this.#take(input);
    if (!this.#decoder.isPending) return;
    this.#escape = setTimeout(() => {
      for (const input of this.#decoder.flush()) this.#take(input);
    }, escapeMs);
  }

  #take(input: MonitorInput): void {
    const { rows, scopes, scope } = this.#listed;
    const view = { ...this.#view, scope };
    const pressed = press(view, input, { rows, scopes, hits: this.#hits });
    this.#view = pressed.view;
    if (pressed.effect !== undefined) this.#perform(pressed.effect);
    // The next key may come before the next drawing, and is about what this one left.
    if (!this.#options.stop.signal.aborted) this.#list();
    this.drawSoon();
  }

  #perform(effect: MonitorEffect): void {
    const { stop } = this.#options;
    switch (effect.kind) {
      case 'quit':
        stop.stop();
        break;
      case 'interrupt':
        stop.stop('SIGINT');
        break;
      case 'suspend':
        this.suspend();
        break;
      case 'mouse':
        this.#screen.mouse(effect.on);
        break;
      case 'signal':
      default: {
        const message = sendSignal(effect.targets, effect.signal, {
          procRoot: machineRoots.proc,
          ownPid: process.pid,
          kill: (pid, signal) => process.kill(pid, signal),
        });
        this.#view = { ...this.#view, message };
      }
    }
  }

  #list(): void {
    this.#listed = listProcesses(this.#view, this.#watching.states(), this.#processes, uptime());
  }

  #draw(): void {
    const { settings, version, hostname, io } = this.#options;
    const states = this.#watching.states();
    const { alerts, events } = this.#watching.recorder;
    this.#processes.take(states);
    this.#processes.refresh(this.#inSight());
    this.#list();
    const { rows, scope, noRows } = this.#listed;
    const model = {
      states,
      alerts: alerts.slice(-shownNews),
      events: events.slice(-shownNews),
      rows,
      noRows,
      view: { ...this.#view, scope },
      nowSeconds: Math.max(0, ...states.map((state) => state.latest.atSeconds)),
      epochMs: systemClock.epochMs(),
      hostname,
      intervalSeconds: settings.intervalSeconds,
      loadLinePercent: settings.loadLinePercent,
      version,
    };
    const frame = renderScreen(model, this.#terminal.size(), textStyle(io));
    this.#hits = frame.hits;
    if (this.#view.page === 'main') this.#view = { ...this.#view, first: frame.hits.first };
    this.#screen.draw(frame.lines);
  }

  #inSight(): readonly number[] {
    const { first, tableRows } = this.#hits;
    const shown =
      this.#view.sort === 'cpu'
        ? this.#listed.rows
        : this.#listed.rows.slice(first, first + tableRows);
    return shown.map(({ pid }) => pid);
  }
}
