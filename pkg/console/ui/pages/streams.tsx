import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type * as T from '../../../typescript/src/types.js'
import { api } from '../lib/api.js'
import { count, line } from '../lib/format.js'
import { lastSequence, latest } from '../lib/latest.js'
import { paused, useLoad, usePages } from '../lib/load.js'
import { me, oneNamespace } from '../lib/me.js'
import { go, here, param, streamHref } from '../lib/route.js'
import { untilSeen, whileSeen } from '../lib/seen.js'
import { Empty, Facts, Loaded, Payload, Problem, Section, Text, Title } from '../parts/basic.js'
import { Field, Filters } from '../parts/form.js'
import { Pages, Table } from '../parts/table.js'
import { eventColumns } from './events.js'

export function Streams(): JSX.Element {
  const ns = oneNamespace.value
  const start = param('path')
  const load = usePages(`topics ${ns} ${start}`, {
    cli: line('topics', '--ns', ns),
    page: async (client, cursor) => {
      const page = await client.listTopics({ ns, path_prefix: start || undefined, limit: 100, cursor })
      return { rows: page.topics, next: page.next_cursor }
    },
  })
  return (
    <>
      <Title kind={`Namespace ${ns}`}>Streams</Title>
      <Filters>
        <Field label="Path begins with" value={start} set={(v) => go(here({ path: v || undefined }), true)} placeholder="/orders" />
      </Filters>
      <Pages
        label="Streams" load={load} id={(t) => t.topic} empty="No path has an event yet."
        columns={[
          { title: 'Path', cell: (t) => <a href={streamHref(ns, t.topic)}><Text>{t.topic}</Text></a> },
          { title: 'Latest sequence', align: 'right', cell: (t) => count(t.latest_sequence) },
        ]}
      />
    </>
  )
}

const shownLive = 200

/** A path as a stream, followed live by a feed. */
export function Stream({ ns, path }: { ns: string; path: string }): JSX.Element {
  const [events, setEvents] = useState<T.CloudEvent[]>([])
  const [missed, setMissed] = useState(0)
  const [problem, setProblem] = useState<unknown>()
  const head = useLoad(`stream ${ns} ${path}`, {
    cli: line('stream', 'read', path, '--ns', ns, '--follow'), nats: `nats sub '${me.value?.subject ?? 'events'}.${ns}.>'`,
    run: async (client) => Object.fromEntries((await client.headStream({ ns, path })).headers),
  })
  useEffect(() => {
    const stop = new AbortController()
    let waiting: T.CloudEvent[] = []
    const timer = setInterval(() => {
      if (paused.value || waiting.length === 0) return
      const fresh = waiting
      waiting = []
      setEvents((old) => [...fresh.reverse(), ...old].slice(0, shownLive))
    }, 250)
    const follow = async (): Promise<void> => {
      let place = await lastSequence(api(), ns)
      setEvents((await latest(api(), { ns, pattern: path }, place, shownLive)).events.slice(0, shownLive))
      const read = async (signal: AbortSignal): Promise<void> => {
        for await (const { data } of api().feed({ ns, pattern: path, since: String(place) }, { signal })) {
          if ('event' in data) {
            place = data.resume ?? data.seq
            waiting = [...waiting, data.event].slice(-shownLive)
          }
          if ('lagged' in data) setMissed((n) => n + data.lagged.missed_count)
        }
      }
      while (!stop.signal.aborted) {
        await untilSeen(stop.signal)
        await whileSeen(stop.signal, read).catch((p: unknown) => {
          if (!document.hidden) throw p
        })
      }
    }
    follow().catch((p: unknown) => {
      if (!stop.signal.aborted) setProblem(p)
    })
    return () => {
      stop.abort()
      clearInterval(timer)
    }
  }, [ns, path])
  return (
    <>
      <Title kind={`Stream in ${ns}`}><Text>{path}</Text></Title>
      <Loaded load={head}>
        {(h) => <Facts of={{ 'Content type': h['content-type'], 'Next offset': h['stream-next-offset'], Closed: h['stream-closed'], 'Expires at': h['stream-expires-at'] }} />}
      </Loaded>
      <Section title="Events, newest first">
        <Problem of={problem} />
        {missed > 0 && <p class="problem" role="status">{count(missed)} events came too fast for this page; they are in the log.</p>}
        <Table label="Events of the stream" rows={events} columns={eventColumns(ns)} id={(e) => e.id} empty="No event yet; new ones appear by themselves." />
      </Section>
      {events[0] && <Section title="Latest data"><Payload label="Latest data" value={events[0].data ?? events[0].data_base64 ?? ''} /></Section>}
      {events.length === shownLive && <Empty>The latest {shownLive} are shown.</Empty>}
    </>
  )
}
