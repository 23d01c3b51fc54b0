import { formatBytes } from '../../units/bytes.js';
import { cleanText, textWidth } from './text-width.js';

/** A user as `plimsoll users list` shows one. */
export interface UserRow {
  readonly name: string;
  readonly role: string;
  readonly maxMemoryBytes: number | null;
  readonly maxJobs: number | null;
  readonly account: string | null;
  readonly addedAt: string;
}

/** An entry of the audit log as it is shown. */
export interface AuditRow {
  readonly at: string;
  readonly who: string;
  readonly via: string;
  readonly from: string;
  readonly action: string;
  readonly outcome: string;
  readonly code?: string | undefined;
  readonly job?: string | undefined;
  readonly about?: string | undefined;
}

/**
 * The users of a server as a table.
 *
 * @example
 * usersTable([{ name: 'ada', role: 'user', maxMemoryBytes: null, maxJobs: 4, account: null, addedAt }]);
 */
export function usersTable(users: readonly UserRow[]): string {
  if (users.length === 0) return 'There are no users: the token of the server is the only one.';
  return table(
    ['NAME', 'ROLE', 'MEMORY AT ONCE', 'JOBS AT ONCE', 'UNIX ACCOUNT', 'ADDED'],
    users.map(({ name, role, maxMemoryBytes, maxJobs, account, addedAt }) => [
      name,
      role,
      maxMemoryBytes === null ? 'no limit' : formatBytes(maxMemoryBytes),
      maxJobs === null ? 'no limit' : String(maxJobs),
      account ?? '',
      addedAt.slice(0, 10),
    ]),
  );
}

/** Who did what, one line each, the oldest first. */
export function auditText(entries: readonly AuditRow[]): string {
  if (entries.length === 0) return 'The audit log is empty.';
  return table(
    ['TIME', 'WHO', 'FROM', 'DID', ''],
    entries.map((entry) => [
      entry.at,
      entry.who,
      entry.via === 'none' ? entry.from : `${entry.from} (${entry.via})`,
      [entry.action, entry.job === undefined ? '' : `job ${entry.job}`].join(' ').trim(),
      [entry.outcome === 'refused' ? `refused: ${entry.code ?? ''}` : '', entry.about ?? '']
        .join(' ')
        .trim(),
    ]),
  );
}

function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [titles, ...rows].map((row) => row.map(cleanText));
  const widths = titles.map((_, at) => Math.max(...cells.map((row) => textWidth(row[at] ?? ''))));
  const padded = (text: string, at: number): string =>
    text + ' '.repeat(Math.max(0, (widths[at] ?? 0) - textWidth(text)));
  return cells.map((row) => row.map(padded).join('  ').trimEnd()).join('\n');
}
