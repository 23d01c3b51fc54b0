import { createServer } from 'node:net';

/** Ports of loopback that were free a moment ago. */
export async function freePorts(count: number): Promise<readonly number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, () => {
      const server = createServer();
      return new Promise<typeof server>((resolve) => {
        server.listen(0, '127.0.0.1', () => resolve(server));
      });
    }),
  );
  return Promise.all(
    servers.map((server) => {
      const address = server.address();
      const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
      return new Promise<number>((resolve) => server.close(() => resolve(port)));
    }),
  );
}
