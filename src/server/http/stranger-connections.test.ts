import { Socket } from 'node:net';
import { expect, it } from 'vitest';
import { StrangerConnections } from './listen.js';

function socketFrom(address: string): Socket {
  return Object.defineProperty(new Socket(), 'remoteAddress', { value: address });
}

it('closes the oldest connection of the address with the most, when there are too many', () => {
  const strangers = new StrangerConnections(3);
  const one = socketFrom('10.0.0.1');
  const many = [socketFrom('10.0.0.2'), socketFrom('10.0.0.2'), socketFrom('10.0.0.2')];
  for (const socket of [one, ...many]) strangers.add(socket);
  expect([one, ...many].map((socket) => socket.destroyed)).toEqual([false, true, false, false]);
  expect(strangers.count).toBe(3);
});

it('never closes one that showed a token, nor counts it', () => {
  const strangers = new StrangerConnections(1);
  const owner = socketFrom('127.0.0.1');
  strangers.add(owner);
  strangers.isKnown(owner);
  expect(strangers.has(owner)).toBe(false);
  const others = [socketFrom('127.0.0.1'), socketFrom('127.0.0.1')];
  for (const socket of others) strangers.add(socket);
  expect(owner.destroyed).toBe(false);
  expect(others.map((socket) => socket.destroyed)).toEqual([true, false]);
});

it('takes one back that was known for a while, as the newest', () => {
  const strangers = new StrangerConnections(2);
  const [first, second, third] = [1, 2, 3].map(() => socketFrom('127.0.0.1'));
  if (first === undefined || second === undefined || third === undefined) throw new Error();
  for (let times = 0; times < 20; times++) {
    strangers.isKnown(first);
    strangers.add(first);
    if (times === 0) strangers.add(second);
  }
  expect(first.listenerCount('close')).toBe(1);
  strangers.add(third);
  expect([first, second, third].map((socket) => socket.destroyed)).toEqual([false, true, false]);
});

it('forgets one that closed', () => {
  const strangers = new StrangerConnections(1);
  const left = socketFrom('127.0.0.1');
  strangers.add(left);
  left.emit('close');
  expect([strangers.count, strangers.has(left)]).toEqual([0, false]);
});
