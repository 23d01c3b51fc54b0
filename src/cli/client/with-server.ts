import type { CliIo } from '../io.js';
import { type Stop, stopOnSignals } from '../stop.js';
import { findServer, type ServerArguments } from './find-server.js';
import { openServerClient, type ServerClient } from './server-client.js';

/** Asks a server until the answer is there, or the person left. */
export async function withServer(
  given: ServerArguments,
  io: CliIo,
  act: (client: ServerClient, stop: Stop) => Promise<number>,
): Promise<number> {
  using stop = stopOnSignals([io.stdout.closed]);
  const client = openServerClient(findServer(given, io.environment), stop.signal);
  try {
    return await act(client, stop);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    return stop.interruptedBy ?? 0;
  }
}
