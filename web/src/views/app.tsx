import { useEffect, useRef, useState } from 'preact/hooks';
import { Announcer } from '../parts/announcer.js';
import { CancelDialog } from '../parts/cancel-dialog.js';
import { ConnectionNote } from '../parts/connection-note.js';
import { Empty } from '../parts/empty.js';
import { HelpSheet } from '../parts/help-sheet.js';
import { TopBar } from '../parts/top-bar.js';
import { connection } from '../state/live/live.js';
import { useStore } from '../state/live/store.js';
import { type Route, routeOf } from '../state/page/route.js';
import { WorkloadForm } from './answers/workload-form.js';
import { ComparePage } from './compare/compare-page.js';
import { FleetView } from './fleet/fleet-view.js';
import { JobPage } from './job/job-page.js';
import { Overview } from './overview/overview.js';
import { SignIn } from './sign-in.js';
import { SubmitForm } from './submit-form.js';

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
