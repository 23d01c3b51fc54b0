import { addServerOptions, type ServerArguments } from '../client/find-server.js';
import { notOurs, type ServerClient, withServer } from '../client/server-client.js';
import { type CommandContext, type CommandModule, printJson } from '../io.js';

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
    const { url, token, socket } = client.address;
    const isKnown = token !== undefined || socket !== undefined;
    // Without a token the page needs no link; a server must be there all the same.
    if (!isKnown) await client.ask('GET', '/healthz');
    const link = isKnown ? await loginLink(client) : url;
    if (given.json) printJson(io, { link });
    else io.stdout.write(`${link}\n`);
    return 0;
  });
}

/** At the address that the person uses; only at its socket the server says where its page is. */
async function loginLink(client: ServerClient): Promise<string> {
  const { path, url } = Object(await client.ask('POST', '/session/link', {}));
  const { address } = client;
  const isLink = typeof path === 'string' && /^\/#login=[\w-]+$/.test(path);
  const isPlace = typeof url === 'string' && /^http:\/\/[\w.:[\]-]+$/.test(url);
  if (!isLink || !isPlace) throw notOurs(address);
  return `${address.socket === undefined ? address.url : url}${path}`;
}
