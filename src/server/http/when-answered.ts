import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

const waiting = new WeakMap<Socket, Set<() => void>>();

/**
 * Calls `done` once the answer is sent whole, cut off, or its connection is closed. An answer that is
 * queued behind another one on its connection (pipelining) emits no `close` of its own when the
 * connection ends, so the connection is followed, too.
 */
export function whenAnswered(
  { socket }: Pick<IncomingMessage, 'socket'>,
  outgoing: Pick<ServerResponse, 'once' | 'off'>,
  done: () => void,
): void {
  const ofConnection = waiting.get(socket) ?? follow(socket);
  const finish = (): void => {
    if (!ofConnection.delete(finish)) return;
    outgoing.off('close', finish);
    done();
  };
  ofConnection.add(finish);
  if (socket.destroyed) finish();
  else outgoing.once('close', finish);
}

function follow(socket: Socket): Set<() => void> {
  const ofConnection = new Set<() => void>();
  waiting.set(socket, ofConnection);
  socket.once('close', () => {
    for (const finish of ofConnection) finish();
  });
  return ofConnection;
}
