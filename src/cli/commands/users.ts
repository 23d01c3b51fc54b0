import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { homeFolder } from '../../files/folders.js';
import { cleanText, textWidth } from '../../report/text/text-width.js';
import { appendAudit, readAudit } from '../../server/access/audit-log.js';
import { type Role, roles } from '../../server/access/identity.js';
import {
  checkUserName,
  newUserToken,
  type User,
  type UserChange,
} from '../../server/access/users/user.js';
import { openUserStore, type UserStore } from '../../server/access/users/user-store.js';
import { readServerNote } from '../../server/service/server-file.js';
import { formatBytes } from '../../units/bytes.js';
import { type CliIo, type CommandContext, type CommandModule, printJson } from '../io.js';
import { badArgument, countArgument, oneOfArgument, sizeArgument } from '../options/arguments.js';

interface JsonArguments {
  readonly json?: boolean;
}

interface ChangeArguments extends JsonArguments {
  readonly role?: Role;
  readonly maxMemory?: OrNone<number>;
  readonly maxJobs?: OrNone<number>;
  readonly account?: OrNone<string>;
  readonly newToken?: boolean;
}

/** As many as a screen scrolls; --json and --last give more. */
const shownEntries = 100;

export const usersCommand: CommandModule = {
  define(command, context) {
    const sub = (name: string, summary: string): Command =>
      command
        .command(name)
        .description(summary)
        .option('--json', 'print one JSON document on stdout')
        .option('--debug', 'print the stack trace of an error');
    limits(
      sub('add', 'add a user; prints the token once').argument('<name>', 'such as ada'),
      'user',
    )
      .addHelpText(
        'after',
        '\nExample:\n  plimsoll users add ada --role user --max-memory 40GiB --max-jobs 4',
      )
      .action(context.action((name: string, given: ChangeArguments) => add(name, given, context)));
    sub('list', 'list users, roles and quotas').action(
      context.action((given: JsonArguments) => list(given, context)),
    );
    limits(sub('change', 'change the role or quota of a user').argument('<name>', 'of the user'))
      .option('--new-token', 'a new token; the one before, and its sessions, end')
      .addHelpText(
        'after',
        '\nExample:\n  plimsoll users change ada --max-memory none --role admin',
      )
      .action(
        context.action((name: string, given: ChangeArguments) => change(name, given, context)),
      );
    sub('remove', 'remove a user; the token and its sessions end, jobs go on')
      .argument('<name>', 'of the user')
      .action(context.action((name: string, given: JsonArguments) => remove(name, given, context)));
    sub('audit', 'show the audit log: submits, cancels, logins, changes of users, refusals')
      .option('--last <n>', `so many entries (${shownEntries})`, countArgument('--last'))
      .action(
        context.action((given: JsonArguments & { readonly last?: number }) =>
          audit(given, context),
        ),
      );
    command.addHelpText('after', help);
  },
};

const help = `
Each user has a token. A running server sees a change at once. Run it as the user of the
server, on its machine: it changes $PLIMSOLL_HOME/users.db.

  admin   may do everything over the API
  user    submits jobs; cancels and reads the logs of their own jobs
  viewer  sees devices and jobs, and nothing else

Examples:
  plimsoll users add ada --role user --max-memory 40GiB --max-jobs 4
  plimsoll users list
  plimsoll users audit --last 20`;

function limits(command: Command, role?: Role): Command {
  const usual = role === undefined ? '' : ` (${role})`;
  return command
    .option(
      '--role <role>',
      `${roles.join(', ')}${usual}`,
      oneOfArgument('--role', roles),
      ...(role === undefined ? [] : [role]),
    )
    .option('--max-memory <size>', 'what may be reserved at the same time; none', quotaSize)
    .option(
      '--max-jobs <n>',
      'jobs that may run at the same time; none',
      orNone(countArgument('--max-jobs')),
    )
    .option(
      '--account <name>',
      'the Unix account that the jobs run as, on a server that runs as root; none',
      accountArgument,
    );
}

async function withUsers<T>(io: CliIo, work: (users: UserStore, home: string) => T): Promise<T> {
  const home = homeFolder(io.environment);
  const users = await openUserStore(home);
  try {
    return work(users, home);
  } finally {
    users.close();
  }
}

async function add(name: string, given: ChangeArguments, { io }: CommandContext): Promise<number> {
  checkUserName(name);
  const { token, id, hash } = newUserToken();
  const user: User = {
    name,
    role: given.role ?? 'user',
    tokenId: id,
    tokenHash: hash,
    maxMemoryBytes: orNull(given.maxMemory) ?? undefined,
    maxJobs: orNull(given.maxJobs) ?? undefined,
    account: orNull(given.account) ?? undefined,
    addedAt: new Date().toISOString(),
  };
  await withUsers(io, (users, home) => {
    users.add(user);
    note(home, 'add-user', name, { ...given, role: user.role });
  });
  print(io, given, { user: rowOf(user), token }, `Added ${name} (${user.role}).`, token);
  return 0;
}

async function change(
  name: string,
  given: ChangeArguments,
  { io }: CommandContext,
): Promise<number> {
  const made = given.newToken === true ? newUserToken() : undefined;
  const wanted: UserChange = {
    role: given.role,
    maxMemoryBytes: orNull(given.maxMemory),
    maxJobs: orNull(given.maxJobs),
    account: orNull(given.account),
    token: made,
  };
  const user = await withUsers(io, (users, home) => {
    const changed = users.change(name, wanted);
    note(home, 'change-user', name, given);
    return changed;
  });
  const document = { user: rowOf(user), ...(made && { token: made.token }) };
  print(io, given, document, usersTable([rowOf(user)]), made?.token);
  return 0;
}

async function remove(name: string, given: JsonArguments, { io }: CommandContext): Promise<number> {
  const user = await withUsers(io, (users, home) => {
    const removed = users.remove(name);
    note(home, 'remove-user', name, {});
    return removed;
  });
  const words = `Removed ${name}. Jobs of ${name} stay; "plimsoll jobs" lists them, "plimsoll cancel" ends them.`;
  print(io, given, { user: rowOf(user) }, words);
  return 0;
}

async function list(given: JsonArguments, { io }: CommandContext): Promise<number> {
  const users = await withUsers(io, (store) => store.list().map(rowOf));
  print(io, given, { users }, usersTable(users));
  return 0;
}

function audit(
  { last = shownEntries, json }: JsonArguments & { readonly last?: number },
  { io }: CommandContext,
): Promise<number> {
  const entries = readAudit(homeFolder(io.environment), last);
  if (json) printJson(io, { entries });
  else io.stdout.write(`${auditText(entries)}\n`);
  return Promise.resolve(0);
}

function print(
  io: CliIo,
  { json }: JsonArguments,
  document: object,
  words: string,
  token?: string,
): void {
  if (json) {
    printJson(io, document);
    return;
  }
  const { url } = readServerNote(homeFolder(io.environment)) ?? { url: 'http://127.0.0.1:8000' };
  const shown =
    token === undefined
      ? []
      : [
          'The token is shown this once; only its hash is kept. To use it:',
          `  export PLIMSOLL_SERVER=${url} PLIMSOLL_TOKEN=${token}`,
        ];
  io.stdout.write(`${[words, ...shown].join('\n')}\n`);
}

function rowOf(user: User): UserRow {
  const { name, role, maxMemoryBytes = null, maxJobs = null, account = null, addedAt } = user;
  return { name, role, maxMemoryBytes, maxJobs, account, addedAt };
}

/** What was changed is changed, whether or not it can be noted. */
function note(home: string, action: string, name: string, given: ChangeArguments): void {
  const changes = Object.entries({
    role: given.role,
    'max-memory': given.maxMemory,
    'max-jobs': given.maxJobs,
    account: given.account,
    'new-token': given.newToken,
  }).flatMap(([key, value]) => (value === undefined ? [] : [`${key}=${value}`]));
  appendAudit(home, {
    at: new Date().toISOString(),
    who: userInfo().username,
    via: 'command',
    from: `uid ${process.getuid?.() ?? 'unknown'}`,
    action,
    outcome: 'done',
    about: [name, ...changes].join(' '),
  });
}

/** `none` takes a limit away. */
type OrNone<T> = T | 'none';

function orNone<T>(read: (text: string) => T): (text: string) => OrNone<T> {
  return (text) => (text === 'none' ? 'none' : read(text));
}

/** As the store takes it: undefined leaves it as it is, null takes it away. */
function orNull<T>(given: OrNone<T> | undefined): T | null | undefined {
  return given === 'none' ? null : given;
}

const quotaSize = orNone(sizeArgument('--max-memory'));

/** As useradd takes names, and those of directory services. */
const accountArgument = orNone((text: string): string => {
  if (/^[a-z_][\w.@-]{0,63}$/i.test(text)) return text;
  throw badArgument('--account', text, 'It takes the name of a Unix account, such as ada.');
});

/** A user as `plimsoll users list` shows one. */
interface UserRow {
  readonly name: string;
  readonly role: string;
  readonly maxMemoryBytes: number | null;
  readonly maxJobs: number | null;
  readonly account: string | null;
  readonly addedAt: string;
}

/** An entry of the audit log as it is shown. */
interface AuditRow {
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
function usersTable(users: readonly UserRow[]): string {
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
function auditText(entries: readonly AuditRow[]): string {
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
