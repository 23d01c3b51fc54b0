import { useEffect, useRef, useState } from 'preact/hooks';
import { fetchJobRequest, signIn, submitJob } from '../api/client.js';
import { asRefusal, type Refusal } from '../api/refusal.js';
import type { JobRequest } from '../api/types.js';
import { CancelDialog } from '../parts/cancel-dialog.js';
import { useNow } from '../parts/clock.js';
import { AreaField, focusWrong, TextField } from '../parts/field.js';
import { HelpSheet, openHelp } from '../parts/help-sheet.js';
import { Emblem, Empty, RefusalNote } from '../parts/notes.js';
import { WorkloadFields } from '../parts/workload-fields.js';
import { useAssumptions } from '../state/forms/assumed.js';
import { inFormWords, type Problems, problemWords } from '../state/forms/form-values.js';
import {
  draftLike,
  emptySubmit,
  fieldOf,
  readSubmit,
  type SubmitDraft,
  type SubmitField,
  workloadOfDraft,
} from '../state/forms/submit-draft.js';
import { connect, connection, news } from '../state/live/live.js';
import { useStore } from '../state/live/store.js';
import { type Route, routeOf } from '../state/page/route.js';
import { nextTheme, theme } from '../state/page/theme.js';
import { mayWork, who, whoWords } from '../state/page/who.js';
import { WorkloadForm } from './answers/workload-form.js';
import { ComparePage } from './compare/compare-page.js';
import { FleetView } from './fleet/fleet-view.js';
import { JobPage } from './job/job-page.js';
import { Overview } from './overview/overview.js';

export function App() {
  const route = useRoute();
  const main = useRef<HTMLElement>(null);
  const { phase } = useStore(connection, (now) => now);
  useEffect(() => {
    document.title = titleOf(route);
  }, [route]);
  if (phase === 'signed-out') return <SignIn />;
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <TopBar route={route} />
      <main id="main" ref={main} tabIndex={-1}>
        <ConnectionNote />
        <View route={route} />
      </main>
      <CancelDialog />
      <HelpSheet />
      <Announcer />
    </>
  );
}

function View({ route }: { route: Route }) {
  switch (route.name) {
    case 'overview':
      return <Overview />;
    case 'job':
      return <JobPage key={route.id} id={route.id} />;
    case 'fleet':
      return <FleetView />;
    case 'submit':
      return <SubmitForm key={route.like ?? ''} like={route.like} />;
    case 'compare':
      return <ComparePage ids={route.ids} />;
    case 'plan':
    case 'estimate':
      return <WorkloadForm key={route.name} kind={route.name} />;
    case 'lost':
      return (
        <Empty title="There is no such page.">
          <a href="#/">Back to the overview</a>
        </Empty>
      );
    default:
      return route satisfies never;
  }
}

function useRoute(): Route {
  const [route, setRoute] = useState(() => routeOf(location.hash));
  useEffect(() => {
    const changed = (): void => {
      setRoute(routeOf(location.hash));
      scrollTo(0, 0);
    };
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}

function titleOf(route: Route): string {
  switch (route.name) {
    case 'overview':
      return 'Plimsoll';
    case 'job':
      return `Job ${route.id} · Plimsoll`;
    case 'fleet':
      return 'Fleet · Plimsoll';
    case 'submit':
      return 'New job · Plimsoll';
    case 'compare':
      return 'Compare · Plimsoll';
    case 'plan':
      return 'Plan · Plimsoll';
    case 'estimate':
      return 'Estimate · Plimsoll';
    case 'lost':
      return 'Plimsoll';
    default:
      return route satisfies never;
  }
}

/** The server asks for its token. */
function SignIn() {
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

/** Warns that the figures may be old: the server does not answer. */
function ConnectionNote() {
  const now = useNow();
  const state = useStore(connection, (value) => value);
  if (state.phase !== 'lost') return null;
  const seconds = Math.max(0, Math.ceil((state.retryAtMs - now) / 1000));
  return (
    <div class="lost" role="status">
      <p>
        <b>No connection to the server.</b> Jobs go on without it; the figures below are from
        before. {seconds === 0 ? 'Trying again …' : `Trying again in ${seconds} s.`}
      </p>
      <button type="button" onClick={connect}>
        Try now
      </button>
    </div>
  );
}

/** Says to a screen reader what happened: alerts and ends of jobs, not every reading. */
function Announcer() {
  const text = useStore(news, (now) => now);
  return (
    <p class="aside" role="status" aria-live="polite" id="news">
      {text}
    </p>
  );
}

/** A new job; `like` fills the form with an earlier one. */
function SubmitForm({ like }: { like: string | undefined }) {
  const [draft, setDraft] = useState<SubmitDraft>(emptySubmit);
  const [problems, setProblems] = useState<Problems<SubmitField>>({});
  const [refusal, setRefusal] = useState<Refusal | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  const [earlier, setEarlier] = useState<JobRequest | undefined>(undefined);
  useEffect(() => {
    if (like === undefined) return;
    const fill = (request: JobRequest): void => {
      setEarlier(request);
      setDraft(draftLike(request));
    };
    fetchJobRequest(like).then(fill, (error: unknown) => setRefusal(asRefusal(error)));
  }, [like]);

  const assumed = useAssumptions('estimate', workloadOfDraft(draft));
  const set = (field: SubmitField, value: string): void => {
    setDraft((before) => ({ ...before, [field]: value }));
    setProblems((before) => ({ ...before, [field]: undefined }));
  };
  const bind = (field: SubmitField) => ({
    value: draft[field],
    problem: problems[field],
    set: (value: string) => set(field, value),
  });
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    const read = readSubmit(draft, earlier);
    setRefusal(undefined);
    setProblems('problems' in read ? read.problems : {});
    if ('problems' in read) return focusWrong();
    setBusy(true);
    try {
      const job = await submitJob(read.request);
      location.hash = `#/job/${job.id}`;
    } catch (error) {
      const said = asRefusal(error);
      const field = fieldOf(said);
      if (field === undefined) setRefusal(inFormWords(said));
      else {
        setProblems({ [field]: problemWords(said) });
        focusWrong();
      }
    } finally {
      setBusy(false);
    }
  };

  return (
    <form class="form" onSubmit={(event) => void send(event)} noValidate>
      <h1>New job</h1>
      <AreaField
        {...bind('command')}
        label="Command"
        rows={2}
        wide
        placeholder="python train.py --batch-size {batch_size} --accumulate {accumulation}"
        hint="{batch_size} and {accumulation} are filled in, and lowered where memory runs out. For a shell: bash -c '…'"
      />
      <div class="fields">
        <TextField {...bind('name')} label="Name" placeholder="from the command" />
        <TextField
          {...bind('memory')}
          label="Memory"
          placeholder="such as 6GiB"
          hint="What it takes of each device. Left out: estimated, or as measured before"
        />
        <TextField
          {...bind('batch')}
          label="Batch"
          placeholder="such as 32"
          numeric
          hint="For {batch_size}, and for the estimate"
        />
        <TextField
          {...bind('gpus')}
          label="Devices"
          placeholder="1"
          numeric
          hint="0: the host's memory"
        />
        <TextField
          {...bind('priority')}
          label="Priority"
          placeholder="0"
          numeric
          hint="The higher, the sooner"
        />
        <TextField
          {...bind('timeout')}
          label="May wait for"
          placeholder="for ever"
          hint="30m, 2h; then it expires"
        />
        <TextField
          {...bind('cwd')}
          label="Folder"
          placeholder="the server's"
          hint="An absolute path"
        />
      </div>
      <details>
        <summary>Environment</summary>
        <AreaField
          {...bind('env')}
          label="Variables"
          rows={3}
          wide
          placeholder="such as WANDB_MODE=offline"
          hint="One NAME=value a line"
        />
      </details>
      <details open={problems.model !== undefined || undefined}>
        <summary>Estimate the memory from a model</summary>
        <WorkloadFields
          draft={draft}
          problems={problems}
          set={set}
          assumed={assumed}
          hasBatch={false}
        />
      </details>
      {refusal !== undefined && <RefusalNote refusal={refusal} />}
      <div class="actions">
        <button type="submit" class="primary" disabled={busy}>
          Submit
        </button>
        <a class="button" href="#/">
          Back
        </a>
      </div>
    </form>
  );
}

const places = [
  { name: 'overview', label: 'Overview', href: '#/' },
  { name: 'fleet', label: 'Fleet', href: '#/fleet' },
  { name: 'submit', label: 'New job', href: '#/submit' },
  { name: 'plan', label: 'Plan', href: '#/plan' },
  { name: 'estimate', label: 'Estimate', href: '#/estimate' },
  { name: 'compare', label: 'Compare', href: '#/compare' },
] as const;

/** Pages that viewers have, too. */
const forAll: ReadonlySet<string> = new Set(['overview', 'fleet', 'compare']);

function TopBar({ route }: { route: Route }) {
  const { phase } = useStore(connection, (now) => now);
  const chosen = useStore(theme, (now) => now);
  const me = useStore(who, (now) => now);
  const shown = places.filter(({ name }) => forAll.has(name) || mayWork(me));
  return (
    <header class="top">
      <a class="home" href="#/" aria-label="Plimsoll, overview">
        <Emblem />
        <span>Plimsoll</span>
      </a>
      <nav aria-label="Pages">
        {shown.map(({ name, label, href }) => (
          <a key={name} href={href} aria-current={route.name === name ? 'page' : undefined}>
            {label}
          </a>
        ))}
      </nav>
      <div class="tools">
        {whoWords(me) !== '' && <span class="who">{whoWords(me)}</span>}
        <span class={`link ${phase}`}>{words[phase]}</span>
        <button type="button" class="quiet" onClick={nextTheme} title="Colours (t)">
          <span class="aside">Colours: </span>
          {chosen}
        </button>
        <button
          type="button"
          class="quiet help-key"
          onClick={openHelp}
          aria-label="Keyboard and help"
          title="Help (?)"
        >
          ?
        </button>
      </div>
    </header>
  );
}

const words = {
  live: 'live',
  connecting: 'connecting',
  lost: 'no connection',
  'signed-out': 'signed out',
} as const;
