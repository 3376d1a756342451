// Follows a feed in a terminal: SLUICE_URL, SLUICE_TOKEN, SLUICE_NAMESPACE (default) and SLUICE_PATTERN (/**) say which.
import { askForTicket } from './feed.js'
import { followSocket } from './websocket.js'

declare const process: { env: Record<string, string | undefined>; on(signal: string, then: () => void): void }
declare const WebSocket: unknown

const { SLUICE_URL = 'http://127.0.0.1:8080', SLUICE_TOKEN = '', SLUICE_NAMESPACE = 'default', SLUICE_PATTERN = '/**' } = process.env

if (typeof WebSocket === 'undefined') {
  const npm = 'ws' // before Node 22
  Object.assign(globalThis, { WebSocket: (await import(npm)).WebSocket })
}

const stop = followSocket({
  ticket: () => askForTicket(SLUICE_URL, SLUICE_NAMESPACE, SLUICE_TOKEN),
  query: { pattern: SLUICE_PATTERN },
  onEvent: ({ seq, event }) => console.log(seq, event.type, JSON.stringify(event.data)),
  onLagged: ({ missed_count }) => console.log(`too slow: ${missed_count} were missed`),
  onEnd: ({ code, message }) => console.log(`over: ${code}, ${message}`),
})
process.on('SIGINT', stop)
