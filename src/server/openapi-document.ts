import type { OpenAPIHono } from '@hono/zod-openapi';
import type { Env } from 'hono';

const description =
  'The load line for GPU memory: jobs packed by memory, devices, estimates and plans. Bytes are integers; what could not be read is the word "unknown". Every error is {"error":{"code","fact","next"}}.';

/**
 * The OpenAPI document of all that was registered. Paths begin at the server itself, so that it is
 * right behind whatever address it was fetched from.
 */
export function openApiDocument<E extends Env>(
  app: OpenAPIHono<E>,
  { version, cookieName }: { readonly version: string; readonly cookieName: string | undefined },
): unknown {
  const tokens = [{ token: [] }, { session: [] }];
  return app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'Plimsoll',
      version,
      description,
      license: { name: 'MIT' },
    },
    servers: [{ url: '/' }],
    // Without a token on the server none is needed, and one that is sent does no harm.
    security: cookieName === undefined ? [{}, ...tokens] : tokens,
    tags: [
      { name: 'jobs', description: 'What people asked to run.' },
      { name: 'devices', description: 'Memory, and how much of it is reserved.' },
      { name: 'answers', description: 'What a workload needs, and how it fits.' },
      { name: 'events', description: 'What happens, as it happens.' },
      { name: 'server', description: 'The server itself.' },
    ],
  });
}

/** How to show who one is. */
export function registerSecurity<E extends Env>(
  { openAPIRegistry }: OpenAPIHono<E>,
  cookieName = 'plimsoll_session',
): void {
  openAPIRegistry.registerComponent('securitySchemes', 'token', {
    type: 'http',
    scheme: 'bearer',
    description: 'Needed where the server was started with a token; always beyond loopback.',
  });
  openAPIRegistry.registerComponent('securitySchemes', 'session', {
    type: 'apiKey',
    in: 'cookie',
    name: cookieName,
    description: 'For browsers: POST /session trades the token for it.',
  });
}
