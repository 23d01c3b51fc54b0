import { bases } from '../basis.js';

const safe = `BETWEEN ${Number.MIN_SAFE_INTEGER} AND ${Number.MAX_SAFE_INTEGER}`;
const date = 'BETWEEN -8640000000000000 AND 8640000000000000';
const quoted = (names: readonly string[]) => names.map((name) => `'${name}'`).join(', ');

/** SQL that is true where a text is JSON and the condition holds. A CASE looks no further otherwise. */
const json = (column: string, condition: string) =>
  `CASE WHEN instr(${column}, char(0)) = 0 AND json_valid(${column}) THEN ${condition} END`;

const isCommand = `json_type(command) = 'array' AND json_array_length(command) > 0
  AND NOT EXISTS (SELECT 1 FROM json_each(command) WHERE type <> 'text')`;
const isDetails = `json_type(details) = 'object' AND NOT EXISTS (
  SELECT 1 FROM json_each(details) AS one WHERE (key = 'cwd' AND type <> 'text') OR (key = 'env' AND
    (type <> 'object' OR EXISTS (SELECT 1 FROM json_each(one.value) WHERE type <> 'text'))))`;

/**
 * SQL that is true where the row of a waiting job surely holds what we write there; `damageIn` looks
 * at all others. SQLite checks 100,000 rows in the time in which it hands out 20,000.
 */
export const isWholeWaiting = `(state = 'waiting' AND reason = 'null' AND reservation IS NULL
  AND run_id IS NULL AND started_ms IS NULL AND ending IS NULL
  AND typeof(name) = 'text' AND typeof(owner) = 'text' AND typeof(workload_key) = 'text'
  AND basis IN (${quoted(bases)}) AND priority ${safe} AND turn ${safe} AND bytes ${safe}
  AND gpus ${safe} AND alone ${safe} AND submitted_ms ${date}
  AND (deadline_ms IS NULL OR deadline_ms ${date})
  AND ${json('command', isCommand)} AND ${json('details', isDetails)})`;
