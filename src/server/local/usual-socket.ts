/** Where a server that is root listens for the accounts of its machine. */
export const usualSocket = '/run/plimsoll/server.sock';
