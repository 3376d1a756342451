import type { JSX } from 'preact'
import type * as T from '../../../typescript/src/types.js'
import { bytes, count, counted, line, span } from '../lib/format.js'
import { useLoad } from '../lib/load.js'
import { may } from '../lib/me.js'
import { href, namespace } from '../lib/route.js'
import { Facts, Figure, Loaded, Section, Sentence, State, Time, Title } from '../parts/basic.js'
import { Chart } from '../parts/chart.js'
import { Table } from '../parts/table.js'
import { ledgerColumns } from './audit.js'
import { columns } from './subscriptions.js'

/** What flows, and what is stuck: the age of the oldest undelivered event first. */
export function Overview(): JSX.Element {
  const ns = namespace.value
  const load = useLoad(`overview ${ns}`, { cli: line('status', '--overview', ns && '--ns', ns), every: 2000, run: (api) => api.getOverview({ namespace: ns || undefined }) })
  return (
    <>
      <Title>Overview</Title>
      <Loaded load={load}>
        {(o) => (
          <>
            <Figures of={o} />
            <Section title="Attempts in the last hour">
              <Chart label="Delivered and failed attempts in the last hour" at={o.minutes.map((m) => m.at)} series={[{ name: 'Delivered', values: o.minutes.map((m) => m.delivered), colour: '--sl-good' }, { name: 'Failed', values: o.minutes.map((m) => m.failed), colour: '--sl-bad' }]} />
              <Failures of={o.last_hour.failures} />
            </Section>
            {may('subscribe') && <Worst ns={ns} />}
            {o.server && <Server of={o.server} />}
            {o.ledger && (
              <Section title="Last changes" actions={<a href={href('/audit')}>All changes</a>}>
                <Table label="Last changes" rows={o.ledger} columns={ledgerColumns} id={(e) => e.id} empty="No change yet." />
              </Section>
            )}
          </>
        )}
      </Loaded>
    </>
  )
}

function Figures({ of: o }: { of: T.Overview }): JSX.Element {
  const oldest = o.oldest_undelivered
  const { delivered, failed } = o.last_hour
  const attempts = delivered + failed
  const ms = (n: number | undefined): string => (n === undefined ? '–' : `${count(Math.round(n))} ms`)
  const sum = (counts: Record<string, number>): number => Object.values(counts).reduce((a, b) => a + b, 0)
  return (
    <div class="figures">
      <Figure
        name="Oldest undelivered" value={oldest ? span(oldest.age_seconds) : 'none waits'} tone={oldest && oldest.age_seconds >= 60 ? 'warn' : undefined}
        href={oldest ? href(`/subscriptions/${encodeURIComponent(oldest.subscription)}`) : href('/subscriptions')} note={oldest?.subscription}
      />
      <Figure name="Backlog" value={`${o.backlog.complete ? '' : '≥ '}${count(o.backlog.events)}`} note={`${counted(o.lanes.parked, 'lane')} parked, ${count(o.lanes.held)} held`} />
      <Figure name="Deliveries" value={`${count(Math.round(o.rates.deliveries_per_second * 10) / 10)} /s`} note={`${count(Math.round(o.rates.attempts_per_second * 10) / 10)} attempts/s`} />
      <Figure name="Failed attempts" value={attempts === 0 ? '–' : `${((100 * failed) / attempts).toFixed(1)} %`} tone={failed * 20 > attempts ? 'bad' : undefined} note={`${count(failed)} of ${count(attempts)} in the last hour`} href={href('/problems')} />
      <Figure name="p50 · p95 · p99" value={ms(o.last_hour.p50_ms)} note={`${ms(o.last_hour.p95_ms)} · ${ms(o.last_hour.p99_ms)}`} />
      <Figure name="Endpoints down" value={count(o.breakers.open)} tone={o.breakers.open > 0 ? 'bad' : undefined} note={`${count(o.breakers.half_open)} probing, ${count(o.subscriptions['disabled'] ?? 0)} disabled`} href={href('/subscriptions', { health: 'failing' })} />
      <Figure name="Retries due in an hour" value={count(o.lanes.due_in_hour)} />
      <Figure name="Dead letters" value={o.dead_letters.counted ? count(o.dead_letters.total) : '> 100,000'} tone={o.dead_letters.total > 0 ? 'warn' : undefined} note={reasons(o.dead_letters.by_reason)} href={href('/subscriptions', { health: 'dead_letters' })} />
      <Figure name="Replays under way" value={count(o.replays)} />
      <Figure name="Wake consumers" value={count(sum(o.wake_consumers))} note={reasons(o.wake_consumers)} />
      {o.server && <Figure name="Feeds connected" value={count(o.server.feeds)} />}
    </div>
  )
}

/** Counts by name, without those that are zero. */
function reasons(counts: Record<string, number> | undefined): string {
  return Object.entries(counts ?? {}).filter(([, n]) => n > 0).map(([name, n]) => `${count(n)} ${name.replaceAll('_', ' ')}`).join(', ')
}

function Failures({ of: counts }: { of: T.FailureCounts }): JSX.Element | null {
  const all = Object.entries(counts).sort(([, a], [, b]) => b - a)
  if (all.length === 0) return null
  return <p>Failures: {all.map(([name, n]) => `${count(n)} ${name.replaceAll('_', ' ')}`).join(', ')}. <a href={href('/problems')}>Problems</a></p>
}

function Worst({ ns }: { ns: string }): JSX.Element {
  const load = useLoad(`worst ${ns}`, { cli: line('status', ns && '--ns', ns), every: 5000, run: (api) => api.listHealth({ namespace: ns || undefined, limit: 8, sparkline: true }) })
  return (
    <Section title="Subscriptions, worst first" actions={<a href={href('/subscriptions')}>All subscriptions</a>}>
      <Loaded load={load}>
        {({ subscriptions }) => <Table label="Subscriptions, worst first" rows={subscriptions} columns={columns} id={(s) => s.id} empty="No subscription yet." />}
      </Loaded>
    </Section>
  )
}

function Server({ of: server }: { of: T.OverviewServer }): JSX.Element {
  const { storage, replicas } = server
  return (
    <Section title="Server" actions={<a href={href('/system')}>System</a>}>
      <Facts of={{ Version: server.version, Store: <State of={storage.level} />, Used: `${bytes(storage.used_bytes)}${storage.limit_bytes ? ` of ${bytes(storage.limit_bytes)} (${((100 * storage.used_bytes) / storage.limit_bytes).toFixed(0)} %)` : ''}` }} />
      {storage.problem && <p class="problem" role="alert"><Sentence>{storage.problem}</Sentence></p>}
      <Table
        label="Replicas" rows={replicas} id={(r) => r.id} empty="No replica has reported yet."
        columns={[
          { title: 'Replica', cell: (r) => r.id },
          { title: 'Version', cell: (r) => r.version, wide: true },
          { title: 'Leases', align: 'right', cell: (r) => count(r.leases) },
          { title: 'Feeds', align: 'right', cell: (r) => count(r.feeds), wide: true },
          { title: 'Seen', cell: (r) => <Time at={r.seen_at} /> },
        ]}
      />
    </Section>
  )
}
