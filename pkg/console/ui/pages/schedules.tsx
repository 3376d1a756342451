import type { JSX } from 'preact'
import { count, line } from '../lib/format.js'
import { useLoad, usePages } from '../lib/load.js'
import { oneNamespace } from '../lib/me.js'
import { eventHref } from '../lib/route.js'
import { Loaded, Section, State, Text, Time, Title } from '../parts/basic.js'
import { AskButton } from '../parts/dialog.js'
import { Pages, Table } from '../parts/table.js'

/** What the server publishes by itself: scheduled events, appointments and watches. */
export function Schedules(): JSX.Element {
  const ns = oneNamespace.value
  return (
    <>
      <Title kind={`Namespace ${ns}`}>Schedules and watches</Title>
      <Scheduled ns={ns} />
      <Appointments ns={ns} />
      <Watches ns={ns} />
    </>
  )
}

function Scheduled({ ns }: { ns: string }): JSX.Element {
  const load = usePages(`scheduled ${ns}`, {
    cli: line('schedule', 'ls', '--ns', ns),
    page: async (api, cursor) => {
      const page = await api.listScheduled({ ns, limit: 50, cursor })
      return { rows: page.scheduled, next: page.next_cursor }
    },
  })
  return (
    <Section title="Scheduled events">
      <Pages
        label="Scheduled events" load={load} id={(s) => s.id} empty="No event is scheduled."
        columns={[
          { title: 'Event', cell: (s) => <Text>{s.id}</Text> },
          { title: 'Type', cell: (s) => <Text>{s.type}</Text>, wide: true },
          { title: 'Path', cell: (s) => <Text>{s.path}</Text>, wide: true },
          { title: 'Published', cell: (s) => <Time at={s.deliver_at} /> },
          { title: 'State', cell: (s) => <State of={s.state} /> },
          { title: 'By', cell: (s) => <Text>{s.created_by}</Text>, wide: true },
          { title: 'Act', cell: (s) => s.state === 'waiting' && <AskButton danger act={{ name: 'Cancel', done: `${s.id} is cancelled.`, cli: line('schedule', 'cancel', s.id, '--ns', ns), run: (api) => api.cancelScheduled({ ns, event: s.id }) }} question={`Cancel the event ${s.id}? It is never published.`} then={load.reload} /> },
        ]}
      />
    </Section>
  )
}

function Appointments({ ns }: { ns: string }): JSX.Element {
  const load = usePages(`appointments ${ns}`, {
    cli: line('appointment', 'ls', '--ns', ns),
    page: async (api, cursor) => {
      const page = await api.listAppointments({ ns, limit: 50, cursor })
      return { rows: page.appointments, next: page.next_cursor }
    },
  })
  return (
    <Section title="Appointments">
      <Pages
        label="Appointments" load={load} id={(a) => a.id} empty="No appointment."
        columns={[
          { title: 'Appointment', cell: (a) => <Text>{a.id}</Text> },
          { title: 'Next', cell: (a) => <Time at={a.at} /> },
          { title: 'Repeats', cell: (a) => <Text>{a.cron ?? a.every ?? 'once'}</Text>, wide: true },
          { title: 'State', cell: (a) => <State of={a.state} /> },
          { title: 'Publishes', cell: (a) => <Text>{`${a.action.type} on ${a.action.path}`}</Text>, wide: true },
          { title: 'Last', cell: (a) => (a.last ? <><State of={a.last.state} /> {a.last.event_id && <a href={eventHref(ns, a.last.event_id)}>event</a>}</> : '–'), wide: true },
          { title: 'Act', cell: (a) => <AskButton danger act={{ name: 'Cancel', done: `${a.id} is cancelled.`, cli: line('appointment', 'rm', a.id, '--ns', ns), run: (api) => api.cancelAppointment({ ns, id: a.id }) }} question={`Cancel the appointment ${a.id}? It does not fire again.`} then={load.reload} /> },
        ]}
      />
    </Section>
  )
}

function Watches({ ns }: { ns: string }): JSX.Element {
  const load = useLoad(`watches ${ns}`, { cli: line('watch', 'ls', '--ns', ns), every: 5000, run: (api) => api.listWatches({ ns, limit: 200 }) })
  return (
    <Section title="Watches">
      <Loaded load={load}>
        {({ watches }) => (
          <Table
            label="Watches" rows={watches} id={(w) => w.id} empty="No watch."
            columns={[
              { title: 'Watch', cell: (w) => <Text>{w.id}</Text> },
              { title: 'Watches', cell: (w) => <Text>{[w.pattern, w.filter?.cel].filter(Boolean).join(' · ')}</Text>, wide: true },
              { title: 'Publishes', cell: (w) => <Text>{`${w.action.type} on ${w.action.path}`}</Text>, wide: true },
              { title: 'Fired', align: 'right', cell: (w) => count(w.status?.fired ?? 0) },
              { title: 'Last', cell: (w) => <Time at={w.status?.fired_at} /> },
              { title: 'Outcome', cell: (w) => (w.status?.outcome ? <State of={w.status.outcome} /> : '–'), wide: true },
              { title: 'Act', cell: (w) => <AskButton danger act={{ name: 'Delete', done: `${w.id} is deleted.`, cli: line('watch', 'rm', w.id, '--ns', ns), run: (api) => api.deleteWatch({ ns, id: w.id }) }} question={`Delete the watch ${w.id}? It has fired ${count(w.status?.fired ?? 0)} times.`} then={load.reload} /> },
            ]}
          />
        )}
      </Loaded>
    </Section>
  )
}

