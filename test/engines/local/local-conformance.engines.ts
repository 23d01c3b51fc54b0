import { engineConformance } from '../../../src/engine/conformance.suite.js';
import { takingMemory } from '../processes.js';
import { serveLocal } from './local-server.js';

engineConformance('local', async () => {
  const server = await serveLocal();
  return {
    engine: server.engine,
    cwd: server.home,
    taking: takingMemory,
    does: { asksAgain: false, previews: false },
    close: () => server.close(),
  };
});
