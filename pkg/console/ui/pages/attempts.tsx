import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import type * as T from '../../../typescript/src/types.js'
import { useAttempts } from '../lib/attempts.js'
import { count, duration, line } from '../lib/format.js'
import { useLoad } from '../lib/load.js'
import { oneNamespace } from '../lib/me.js'
import { eventHref, go, here, href, param } from '../lib/route.js'
import { Empty, Problem, Sentence, State, Text, Time, Title } from '../parts/basic.js'
import { Field, Filters, Select } from '../parts/form.js'
import { Rows } from '../parts/rows.js'
import { Table } from '../parts/table.js'

/** Attempts as they happen. */
export function Attempts(): JSX.Element {
  const ns = oneNamespace.value
  const subscription = param('subscription')
  const outcome = param('outcome')
  const { attempts, behind, problem } = useAttempts(ns, subscription)
  useLoad(`tail ${ns} ${subscription}`, { cli: line('tail', subscription, '--ns', ns, outcome === 'failed' && '--failed'), run: (api) => api.listAttempts({ ns, subscription: subscription || undefined }) })
  const rows = useMemo(() => attempts.filter((a) => outcome === '' || (outcome === 'failed') === (a.outcome !== 'delivered')).reverse(), [attempts, outcome])
  return (
    <>
      <Title kind={`Namespace ${ns}`}>Attempts</Title>
      <Filters>
        <Field label="Subscription" value={subscription} set={(v) => go(here({ subscription: v || undefined }), true)} />
        <Select label="Outcome" value={outcome} set={(v) => go(here({ outcome: v || undefined }))} options={[['', 'Any'], ['failed', 'Failed'], ['delivered', 'Delivered']]} />
      </Filters>
      <Problem of={problem} />
      <p role="status" class="quiet">{behind > 0 ? `Paused; ${count(behind)} behind.` : `${count(rows.length)} shown; new ones appear by themselves.`}</p>
      {rows.length === 0
        ? <Empty>No attempt since this page was opened. Earlier ones are with each subscription and each event.</Empty>
        : (
            <Rows
              label="Attempts" rows={rows} id={(a) => `${a.subscription} ${a.seq} ${a.number} ${a.started_at}`} head={['Event', 'Outcome', 'Subscription', 'Status', 'Took', 'When']}
              row={(a) => [
                <a href={eventHref(ns, a.event_id)}><Text>{a.event_id}</Text></a>, <State of={a.outcome} />,
                <a href={href(`/subscriptions/${encodeURIComponent(a.subscription)}`)}>{a.subscription}</a>, a.status ? String(a.status) : <Sentence>{a.error}</Sentence>, duration(a.duration), <Time at={a.started_at} />,
              ]}
            />
          )}
    </>
  )
}

/** Some attempts at one event. */
export function AttemptTable({ attempts }: { attempts: T.Attempt[] }): JSX.Element {
  return (
    <Table
      label="Attempts" rows={attempts} id={(a) => `${a.number} ${a.started_at}`} empty="No attempt was recorded."
      columns={[
        { title: 'Attempt', cell: (a) => String(a.number) },
        { title: 'Outcome', cell: (a) => <State of={a.outcome} /> },
        { title: 'Status', cell: (a) => (a.status ? `HTTP ${a.status}` : '–') },
        { title: 'Took', align: 'right', cell: (a) => duration(a.duration) },
        { title: 'When', cell: (a) => <Time at={a.started_at} /> },
        { title: 'Error', cell: (a) => <Sentence>{a.error}</Sentence>, wide: true },
        { title: 'Next', cell: (a) => <Time at={a.verdict?.again} />, wide: true },
      ]}
    />
  )
}
