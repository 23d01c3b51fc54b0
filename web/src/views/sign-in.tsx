import { useState } from 'preact/hooks';
import { signIn } from '../api/client.js';
import { asRefusal, type Refusal } from '../api/refusal.js';
import { Emblem } from '../parts/emblem.js';
import { RefusalNote } from '../parts/refusal-note.js';
import { connect } from '../state/live/live.js';

/** The server asks for its token. */
export function SignIn() {
  const [token, setToken] = useState('');
  const [refusal, setRefusal] = useState<Refusal | undefined>(undefined);
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await signIn({ token: token.trim() });
      setRefusal(undefined);
      connect();
    } catch (error) {
      setRefusal(asRefusal(error));
    }
  };
  return (
    <main class="sign-in" id="main">
      <Emblem />
      <h1>Sign in</h1>
      <p>
        Run <code>plimsoll dashboard</code> and open the link that it prints. Or enter your token;
        that of the server itself is in the file <code>token</code> of its PLIMSOLL_HOME.
      </p>
      <form onSubmit={(event) => void send(event)}>
        <label class="field">
          <span class="label">Token</span>
          <input
            type="password"
            value={token}
            required
            autocomplete="current-password"
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        {refusal !== undefined && <RefusalNote refusal={refusal} />}
        <div class="actions">
          <button type="submit" class="primary">
            Sign in
          </button>
        </div>
      </form>
    </main>
  );
}
