import type { DatabaseSyncInstance } from '@photostructure/sqlite';

/** Pages that are free inside the file: an end of a job changes some five, and reuses most of them. */
const leastPages = 64;
const fills = 4;
/** Of each: small, so that the log stays short and new jobs cannot use up all that is free. */
const fillBytes = 128 * 1024;

/**
 * Keeps room inside the store for the ends of jobs: a job that fills the disk must be one that can be
 * cancelled. Free pages in the file and in its log are on the disk already, so writing them needs no
 * more. Called when the store is opened, and now and then.
 */
export function keepReserve(database: DatabaseSyncInstance): void {
  const [found] = database.prepare('PRAGMA freelist_count').all();
  if (Number(found?.['freelist_count']) >= leastPages) return;
  try {
    for (let fill = 0; fill < fills; fill++) {
      database.exec(
        `BEGIN; CREATE TABLE reserve_${fill} (room BLOB);
         INSERT INTO reserve_${fill} VALUES (zeroblob(${fillBytes})); COMMIT`,
      );
      useReserve(database);
    }
  } catch {
    // The disk is full already: what is there is used, and it is filled up later.
    if (database.isTransaction) database.exec('ROLLBACK');
  } finally {
    for (let fill = 0; fill < fills; fill++) database.exec(`DROP TABLE IF EXISTS reserve_${fill}`);
    useReserve(database);
  }
}

/** Moves what is in the log into the file, so that the log is written from its beginning again. */
export function useReserve(database: DatabaseSyncInstance): void {
  database.prepare('PRAGMA wal_checkpoint(RESTART)').all();
}
