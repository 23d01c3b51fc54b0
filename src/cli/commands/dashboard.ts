import { addServerOptions, type ServerArguments } from '../client/find-server.js';
import { notOurs } from '../client/server-client.js';
import { withServer } from '../client/with-server.js';
import type { CommandContext, CommandModule } from '../command-module.js';
import { printJson } from '../io.js';

export const dashboardCommand: CommandModule = {
  define(command, context) {
    addServerOptions(command)
      .addHelpText(
        'after',
        `
It prints a link that opens the dashboard in a browser, without entering the token. A
link works once, and for an hour.

Examples:
  plimsoll dashboard
  xdg-open "$(plimsoll dashboard)"`,
      )
      .action(context.action((given: ServerArguments) => printLink(given, context)));
  },
};

function printLink(given: ServerArguments, { io }: CommandContext): Promise<number> {
  return withServer(given, io, async (client) => {
    const { url, token } = client.address;
    // Without a token the page needs no link; a server must be there all the same.
    if (token === undefined) await client.ask('GET', '/healthz');
    const link = token === undefined ? url : `${url}${await loginPath(client)}`;
    if (given.json) printJson(io, { link });
    else io.stdout.write(`${link}\n`);
    return 0;
  });
}

async function loginPath(client: Parameters<Parameters<typeof withServer>[2]>[0]): Promise<string> {
  const { path } = Object(await client.ask('POST', '/session/link', {}));
  if (typeof path !== 'string' || !/^\/#login=[\w-]+$/.test(path)) throw notOurs(client.address);
  return path;
}
