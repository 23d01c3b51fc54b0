import { fleetHeadline } from '../../../../src/report/fleet-words.js';
import { Empty } from '../../parts/empty.js';
import { HistoryLines } from '../../parts/fleet/history-lines.js';
import { RefusalNote } from '../../parts/refusal-note.js';
import { useFleet } from '../../state/fleet/use-fleet.js';
import { FleetFacts } from './fleet-facts.js';
import { LeakTable, WasteTable } from './fleet-tables.js';
import { NodeList } from './node-list.js';
import { TrainingList } from './training-list.js';

/** All nodes that the server's Prometheus scrapes. */
export function FleetView() {
  const { fleet, refusal } = useFleet();
  if (refusal?.code === 'no-fleet') {
    return (
      <>
        <h1>Fleet</h1>
        <Empty
          title="This server knows no Prometheus."
          command="plimsoll serve --prometheus http://prometheus:9090"
        >
          The fleet is what a Prometheus knows of the nodes that run <code>plimsoll exporter</code>.
          Start the server with its address:
        </Empty>
      </>
    );
  }
  return (
    <>
      <h1>Fleet</h1>
      {refusal !== undefined && <RefusalNote refusal={refusal} />}
      {fleet === undefined && refusal === undefined && <p class="nothing">Asking Prometheus …</p>}
      {fleet !== undefined && fleet.nodes.length === 0 && (
        <Empty title="Prometheus knows no node of ours." command="plimsoll exporter --host 0.0.0.0">
          Start the exporter on each node, and let Prometheus scrape it:
        </Empty>
      )}
      {fleet !== undefined && fleet.nodes.length > 0 && (
        <>
          <p class="lede">{fleetHeadline(fleet.totals)}.</p>
          <div class="fleet-top">
            <FleetFacts fleet={fleet} />
            <HistoryLines fleet={fleet} />
          </div>
          <TrainingList trainings={fleet.trainings} />
          <LeakTable leaks={fleet.leaks} />
          <WasteTable jobs={fleet.wasteful} />
          <NodeList nodes={fleet.nodes} />
        </>
      )}
    </>
  );
}
