import { Failure } from '../../failure.js';
import { sleepFor } from '../client/follow-log.js';
import { unreachableCode } from '../client/server-client.js';
import type { CliIo } from '../io.js';
import type { Stop } from '../stop.js';
import { openScreen } from './screen.js';
import { openTerminal } from './terminal.js';

export interface JobsScreenOptions {
  readonly io: CliIo;
  readonly stop: Stop;
  readonly look: () => Promise<readonly string[]>;
  readonly everyMs: number;
}

/** Draws again and again until the person leaves; the terminal is given back in every case. */
export async function jobsOnScreen({ io, stop, look, everyMs }: JobsScreenOptions): Promise<void> {
  // What cannot start should say so on the plain terminal.
  let lines = await look();
  const terminal = openTerminal(io);
  const screen = openScreen(terminal);
  const giveBack = () => screen.leave();
  const suspend = () => {
    screen.leave();
    terminal.suspend();
  };
  const unlisten = terminal.listen({
    input(text) {
      for (const key of text) {
        if (key === '\u0003') stop.stop('SIGINT');
        else if (key === '\u001A') suspend();
        else if (key === 'q' || key === 'Q') stop.stop();
      }
    },
    resize() {
      screen.forget();
      screen.draw(lines);
    },
    resume() {
      if (stop.signal.aborted) return;
      screen.enter();
      screen.draw(lines);
    },
    suspend,
    gone: () => stop.stop('SIGHUP'),
  });
  stop.signal.addEventListener('abort', giveBack, { once: true });
  process.once('exit', giveBack);
  try {
    if (!stop.signal.aborted) screen.enter();
    while (!stop.signal.aborted) {
      screen.draw(lines);
      await sleepFor(everyMs, stop.signal);
      if (!stop.signal.aborted) lines = await lookAgain(look, lines);
    }
  } finally {
    unlisten();
    giveBack();
    process.off('exit', giveBack);
  }
}

/** A server that is away for a while is back soon: what was seen last stays, and says so. */
async function lookAgain(
  look: () => Promise<readonly string[]>,
  before: readonly string[],
): Promise<readonly string[]> {
  try {
    return await look();
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== unreachableCode) throw error;
    const away = 'The server does not answer; this is its last answer.';
    return before[0] === away ? before : [away, ...before];
  }
}
