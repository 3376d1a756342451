// What a reader does, in a page and in a thread: it follows a feed as an example does, and tells what it is told.
import { askForTicket } from './feed.js'
import { followEvents } from './eventsource.js'
import { followSocket } from './websocket.js'

export function read(how, wish, tell) {
  const follow = { events: followEvents, socket: followSocket }[how]
  return follow({
    ticket: async () => {
      tell({ kind: 'ticket' })
      if (!wish.ttl) return askForTicket(wish.server, 'default', wish.token)
      const headers = { authorization: `Bearer ${wish.token}`, 'content-type': 'application/json' }
      const answer = await fetch(`${wish.server}/v1/namespaces/default/feed/tickets`, { method: 'POST', headers, body: JSON.stringify({ ttl: wish.ttl }) })
      return answer.json()
    },
    query: wish.query ?? {},
    ...(wish.since === undefined ? {} : { since: wish.since }),
    onLive: () => tell({ kind: 'live' }),
    onAway: (problem) => tell({ kind: 'away', problem: String(problem) }),
    onEvent: ({ seq, event, coalesced, resume }) => tell({ kind: 'event', seq, n: event.data?.n, id: event.id, path: event.path, coalesced, resume }),
    onLagged: (lagged) => tell({ kind: 'lagged', ...lagged }),
    onEnd: (why) => tell({ kind: 'end', why }),
  }, wish.silence)
}
