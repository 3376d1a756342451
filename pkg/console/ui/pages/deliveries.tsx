import type { JSX } from 'preact'
import { count, line } from '../lib/format.js'
import { usePages } from '../lib/load.js'
import { eventHref, go, here, param } from '../lib/route.js'
import { Section, Sentence, State, Text, Time } from '../parts/basic.js'
import { Filters, Select, Field } from '../parts/form.js'
import { Pages } from '../parts/table.js'

type Shown = 'delivered' | 'retrying' | 'held' | 'parked' | 'dead' | 'failed'

/** The deliveries of a subscription, the last attempt first. */
export function Deliveries({ id, ns }: { id: string; ns: string }): JSX.Element {
  const state = param('state')
  const since = param('since')
  const path = param('path')
  const load = usePages(`deliveries ${id} ${state} ${since} ${path}`, {
    cli: line('deliveries', id, state && '--state', state, since && '--since', since, path && '--path', path),
    page: async (api, cursor) => {
      const page = await api.listDeliveries({ id, limit: 50, cursor, state: (state || undefined) as Shown | undefined, since: since || undefined, path: path || undefined })
      return { rows: page.deliveries, next: page.next_cursor }
    },
  })
  return (
    <Section title="Deliveries">
      <Filters>
        <Select label="State" value={state} set={(v) => go(here({ state: v || undefined }))} options={[['', 'Any'], ['failed', 'Failed'], ['delivered', 'Delivered'], ['retrying', 'Retrying'], ['held', 'Held'], ['dead', 'Dead']]} />
        <Select label="Since" value={since} set={(v) => go(here({ since: v || undefined }))} options={[['', 'Ever'], ['10m', '10 minutes'], ['1h', '1 hour'], ['24h', '24 hours'], ['7d', '7 days']]} />
        <Field label="Path" value={path} set={(v) => go(here({ path: v || undefined }), true)} placeholder="/orders/**" />
      </Filters>
      <Pages
        label="Deliveries" load={load} id={(d) => String(d.seq)} empty="No delivery with these filters."
        columns={[
          { title: 'Event', cell: (d) => <a href={eventHref(ns, d.event_id)}><Text>{d.event_id || `sequence ${d.seq}`}</Text></a> },
          { title: 'State', cell: (d) => <State of={d.state} /> },
          { title: 'Type', cell: (d) => <Text>{d.type}</Text>, wide: true },
          { title: 'Path', cell: (d) => <Text>{d.path}</Text>, wide: true },
          { title: 'Attempts', align: 'right', cell: (d) => count(d.attempt_count) },
          { title: 'Last answer', cell: (d) => <Sentence>{d.last_status ? `HTTP ${d.last_status}` : d.last_error}</Sentence>, wide: true },
          { title: 'Last attempt', cell: (d) => <Time at={d.last_attempt_at} /> },
          { title: 'Next', cell: (d) => <Time at={d.next_attempt_at} />, wide: true },
        ]}
      />
    </Section>
  )
}
