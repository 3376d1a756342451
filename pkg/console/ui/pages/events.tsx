import type { JSX } from 'preact'
import type * as T from '../../../typescript/src/types.js'
import { line } from '../lib/format.js'
import { lastSequence, latest } from '../lib/latest.js'
import { usePages } from '../lib/load.js'
import { me, oneNamespace } from '../lib/me.js'
import { eventHref, go, here, param, streamHref } from '../lib/route.js'
import { Text, Time, Title } from '../parts/basic.js'
import { Field, Filters, Select } from '../parts/form.js'
import { type Column, Pages } from '../parts/table.js'

export function eventColumns(ns: string): Column<T.CloudEvent>[] {
  return [
    { title: 'Event', cell: (e) => <a href={eventHref(ns, e.id)}><Text>{e.id}</Text></a> },
    { title: 'Type', cell: (e) => <Text>{e.type}</Text> },
    { title: 'Path', cell: (e) => (e.path ? <a href={streamHref(ns, e.path)}><Text>{e.path}</Text></a> : '–') },
    { title: 'Published by', cell: (e) => <Text>{e.authid ?? e.source}</Text>, wide: true },
    { title: 'When', cell: (e) => <Time at={e.time} /> },
  ]
}

export const ages: [string, string][] = [['', 'Ever'], ['10m', '10 minutes'], ['1h', '1 hour'], ['24h', '24 hours'], ['7d', '7 days']]

/** A time so long ago, for parameters that take no ages. */
export function ago(text: string): string | undefined {
  const size: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 }
  const n = Number(text.slice(0, -1)) * (size[text.slice(-1)] ?? Number.NaN)
  return Number.isNaN(n) ? text || undefined : new Date(Date.now() - n).toISOString()
}

export function Events(): JSX.Element {
  const ns = oneNamespace.value
  const [pattern, types, since] = [param('pattern'), param('types'), param('since')]
  const load = usePages(`events ${ns} ${pattern} ${types} ${since}`, {
    cli: line('events', 'ls', pattern, '--ns', ns, types && '--type', types, since && '--since', since),
    nats: `nats stream view ${me.value?.subject === 'events' ? '' : `${me.value?.subject ?? ''} `}--subject '${me.value?.subject ?? 'events'}.${ns}.>'`,
    page: async (api, cursor) => {
      const upTo = cursor === undefined ? await lastSequence(api, ns) : Number(cursor)
      const { events, next } = await latest(api, { ns, pattern: pattern || undefined, types: types || undefined, since: ago(since) }, upTo, 50)
      return { rows: events, next: next > 0 ? String(next) : '' }
    },
  })
  return (
    <>
      <Title kind={`Namespace ${ns}`}>Events</Title>
      <Filters>
        <Field label="Path" value={pattern} set={(v) => go(here({ pattern: v || undefined }), true)} placeholder="/orders/**" />
        <Field label="Type" value={types} set={(v) => go(here({ types: v || undefined }), true)} placeholder="order.*" />
        <Select label="Since" value={since} set={(v) => go(here({ since: v || undefined }))} options={ages} />
      </Filters>
      <Pages label="Events" load={load} columns={eventColumns(ns)} id={(e) => e.id} empty="No event with these filters." />
    </>
  )
}
