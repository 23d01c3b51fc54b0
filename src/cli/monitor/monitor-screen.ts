import { uptime } from 'node:os';
import { machineRoots } from '../../device/kernel-files.js';
import type { ThemeName } from '../../report/text/spans.js';
import { readProcess } from '../../run/processes/process-table.js';
import { openUserNames } from '../../run/processes/user-names.js';
import { systemClock } from '../../time/clock.js';
import { isKnown } from '../../units/known.js';
import type { DeviceState } from '../../watch/types.js';
import { textStyle } from '../io.js';
import { openScreen, openTerminal, type Screen, type ScreenTerminal } from '../screen/terminal.js';
import type { Stop } from '../stop.js';
import { openWatching, type Watching, type WatchingOptions } from '../watching.js';
import { buildRows, type ProcessRow, parentRows, scopeOf, scopesOf } from './build-rows.js';
import { type MonitorEffect, type MonitorInput, press } from './press.js';
import { ProcessWatch } from './process-watch.js';
import { renderScreen } from './screen.js';
import { orderRows } from './sort-rows.js';
import {
  type MonitorSignal,
  type MonitorView,
  newView,
  noHits,
  type ScreenHits,
  type SignalTarget,
} from './view.js';

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

const escape = '\u001B';

const named: Readonly<Record<string, string>> = {
  '[A': 'up',
  '[B': 'down',
  '[C': 'right',
  '[D': 'left',
  '[H': 'home',
  '[F': 'end',
  '[1~': 'home',
  '[7~': 'home',
  '[4~': 'end',
  '[8~': 'end',
  '[5~': 'page-up',
  '[6~': 'page-down',
  '[11~': 'f1',
  OA: 'up',
  OB: 'down',
  OC: 'right',
  OD: 'left',
  OH: 'home',
  OF: 'end',
  OP: 'f1',
};

const single: Readonly<Record<string, string>> = {
  '\r': 'enter',
  '\n': 'enter',
  '\t': 'tab',
  ' ': 'space',
  '\u007F': 'backspace',
  '\b': 'backspace',
};

/** A sequence that has not ended after this many characters is none. */
const longestSequence = 32;

/**
 * Turns what a terminal sends into keys and clicks. A sequence may come in pieces; Esc alone is told
 * by `flush`, once nothing has followed it.
 */
export class KeyDecoder {
  #pending = '';

  get isPending(): boolean {
    return this.#pending !== '';
  }

  feed(text: string): MonitorInput[] {
    const inputs: MonitorInput[] = [];
    let rest = this.#pending + text;
    this.#pending = '';
    while (rest !== '') {
      if (rest.startsWith(escape)) {
        const match = /^(\[[\d;<?]*[A-Za-z~]|O[A-Za-z])/.exec(rest.slice(1));
        if (match) {
          inputs.push(...sequence(match[0]));
          rest = rest.slice(1 + match[0].length);
          continue;
        }
        if (/^(\[[\d;<?]*|O)?$/.test(rest.slice(1)) && rest.length <= longestSequence) {
          this.#pending = rest;
          break;
        }
        inputs.push({ kind: 'key', key: 'escape' });
        rest = rest.slice(1);
        continue;
      }
      const character = String.fromCodePoint(rest.codePointAt(0) ?? 0);
      inputs.push({ kind: 'key', key: keyOf(character) });
      rest = rest.slice(character.length);
    }
    return inputs;
  }

  /** Nothing more came: what is pending is the key Esc, or the beginning of nothing. */
  flush(): MonitorInput[] {
    const isEscape = this.#pending === escape;
    this.#pending = '';
    return isEscape ? [{ kind: 'key', key: 'escape' }] : [];
  }
}

function keyOf(character: string): string {
  const name = single[character];
  if (name !== undefined) return name;
  const code = character.codePointAt(0) ?? 0;
  return code < 27 ? `ctrl-${String.fromCodePoint(code + 96)}` : character;
}

function sequence(text: string): MonitorInput[] {
  const name = named[text];
  if (name !== undefined) return [{ kind: 'key', key: name }];
  const mouse = /^\[<(\d{1,3});(\d{1,5});(\d{1,5})M$/.exec(text);
  if (mouse === null) return [];
  const [button, column, row] = mouse.slice(1).map(Number);
  const at = { column: (column ?? 1) - 1, row: (row ?? 1) - 1 };
  if (button === 0) return [{ kind: 'click', ...at }];
  if (button === 64) return [{ kind: 'wheel-up', ...at }];
  return button === 65 ? [{ kind: 'wheel-down', ...at }] : [];
}

interface Throttle {
  /** Acts now, or once the time is over if it acted a short while ago. */
  ask(): void;
  cancel(): void;
}

/** Acts at most once in each `everyMs`, and never forgets the last time it was asked. */
export function throttle(act: () => void, everyMs: number): Throttle {
  let timer: NodeJS.Timeout | undefined;
  let asked = false;
  const run = () => {
    asked = false;
    timer = setTimeout(() => {
      timer = undefined;
      if (asked) run();
    }, everyMs);
    // Drawing must not keep the process alive once there is nothing left to draw.
    timer.unref();
    act();
  };
  return {
    ask() {
      asked = true;
      if (timer === undefined) run();
    },
    cancel() {
      clearTimeout(timer);
      timer = undefined;
      asked = false;
    },
  };
}

/** The processes that a view shows, and what they were chosen from. */
interface Listed {
  readonly rows: readonly ProcessRow[];
  /** The scope that holds: the one asked for may be gone. */
  readonly scope: string;
  readonly scopes: readonly string[];
  readonly noRows: string;
}

function listProcesses(
  view: MonitorView,
  states: readonly DeviceState[],
  processes: Pick<ProcessWatch, 'details' | 'trail'>,
  uptimeSeconds: number,
): Listed {
  const scope = scopeOf(view.scope, states);
  const { details, trail } = processes;
  const sources = { states, details, trail, uptimeSeconds };
  const rows = buildRows(scope, sources);
  const parents = view.tree ? parentRows(rows, sources) : [];
  return {
    rows: orderRows(rows, parents, view),
    scope,
    scopes: scopesOf(states),
    noRows: emptyWords(view, states, scope, rows.length),
  };
}

function emptyWords(
  view: MonitorView,
  states: readonly DeviceState[],
  scope: string,
  found: number,
): string {
  if (found > 0) return `No process matches "${view.filter}": Esc clears the filter.`;
  const asked = states.filter(({ info }) =>
    scope === 'gpus' ? info.kind === 'gpu' : info.id === scope,
  );
  const isHidden = asked.some((state) => !isKnown(state.processes));
  return isHidden
    ? 'The processes could not be seen: see "plimsoll doctor".'
    : 'No process holds memory here. d shows those of another device.';
}

/** The part of the machine that is needed; tests hand in their own. */
interface SignalMachine {
  readonly procRoot: string;
  readonly ownPid: number;
  readonly kill: (pid: number, signal: MonitorSignal) => void;
}

/**
 * Sends a signal to each of these processes, unless another has got its pid by now. Answers one
 * sentence for the person.
 */
export function sendSignal(
  targets: readonly SignalTarget[],
  signal: MonitorSignal,
  machine: SignalMachine,
): string {
  return targets.map((target) => sendOne(target, signal, machine)).join(' ');
}

function sendOne(
  { pid, started, user }: SignalTarget,
  signal: MonitorSignal,
  { procRoot, ownPid, kill }: SignalMachine,
): string {
  if (pid === ownPid) return 'This is plimsoll monitor itself: q leaves it.';
  if (pid <= 1 || started === undefined)
    return `${pid} was left alone: it is not known what it is.`;
  const now = readProcess(procRoot, pid);
  if (now?.started !== started || now.state === 'Z') return `${pid} has ended already.`;
  try {
    kill(pid, signal);
    return `${signal} was sent to ${pid}.`;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ESRCH') return `${pid} has ended already.`;
    if (code === 'EPERM') return `${pid} belongs to ${user}: only they, or root, may signal it.`;
    return `${pid}: ${String(error)}`;
  }
}
