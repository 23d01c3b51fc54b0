import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { stopwatch } from './stopwatch.mjs';

/** What this disk and SQLite take for one durable row, with nothing of ours around. */
export function bareCommits(folder, rounds) {
  const database = new DatabaseSync(join(folder, 'bare.db'));
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (x TEXT)');
  const insert = database.prepare('INSERT INTO t VALUES (?)');
  const times = [];
  for (let round = 0; round < rounds; round++) {
    const watch = stopwatch();
    insert.run('x'.repeat(300));
    times.push(watch());
  }
  database.close();
  return times;
}
