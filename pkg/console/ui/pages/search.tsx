import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { SluiceError } from '../lib/api.js'
import { line } from '../lib/format.js'
import { useLoad } from '../lib/load.js'
import { me } from '../lib/me.js'
import { eventHref, go, href, namespace, param, streamHref } from '../lib/route.js'
import { Empty, Loaded, Text, Title } from '../parts/basic.js'

interface Found {
  name: string
  url: string
  kind: string
}

const atOnce = 50 // namespaces

/** What was not found is no failure of a search. */
async function orNone(question: Promise<Found>): Promise<Found[]> {
  return question.then((found) => [found], (problem: unknown) => {
    if (problem instanceof SluiceError && [400, 403, 404, 422].includes(problem.status)) return []
    throw problem
  })
}

/** Looks for an event, a subscription or a path in all namespaces. One result is shown at once. */
export function Search(): JSX.Element {
  const q = param('q')
  const names = namespace.value ? [namespace.value] : (me.value?.namespaces.map((n) => n.name) ?? []).slice(0, atOnce)
  const load = useLoad(`search ${q} ${names.join(' ')}`, {
    cli: line('event', q),
    run: async (api) => {
      if (q.startsWith('/')) return names.map((ns): Found => ({ name: `${q} in ${ns}`, url: streamHref(ns, q), kind: 'Stream' }))
      const all = await Promise.all([
        orNone(api.getSubscription({ id: q }).then((s) => (s.mode === 'mirror' ? { name: s.id, url: href('/mirrors'), kind: 'Mirror' } : { name: s.id, url: href(`/subscriptions/${encodeURIComponent(s.id)}`), kind: 'Subscription' }))),
        ...names.map((ns) => orNone(api.getEvent({ ns, event: q }).then((e) => ({ name: `${e.id} in ${ns}`, url: eventHref(ns, e.id), kind: 'Event' })))),
      ])
      return all.flat()
    },
  })
  const only = load.value?.length === 1 ? load.value[0] : undefined
  useEffect(() => {
    if (only) go(only.url, true)
  }, [only?.url])
  return (
    <>
      <Title>Search</Title>
      <Loaded load={load}>
        {(all) => all.length === 0
          ? <Empty>There is no event, subscription or path “<Text>{q}</Text>” that you may see.</Empty>
          : <ul class="found">{all.map((f) => <li key={f.url}><a href={f.url}><Text>{f.name}</Text></a> <span class="quiet">{f.kind}</span></li>)}</ul>}
      </Loaded>
    </>
  )
}
