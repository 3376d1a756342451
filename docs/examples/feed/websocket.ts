// A feed over a WebSocket. A server with nothing to send says so every 15 seconds: a connection that is silent for longer
// is none any more.
import { type Feed, type Frame, follow } from './feed.js'

export function followSocket(feed: Feed, silence = 45_000): () => void {
  return follow(feed, (url, take, end) => {
    const socket = new WebSocket(url.replace(/^http/, 'ws'))
    const close = (): void => {
      clearTimeout(silent)
      socket.onmessage = null
      socket.close()
      end()
    }
    let silent = setTimeout(close, silence)
    socket.onmessage = (message) => {
      clearTimeout(silent)
      silent = setTimeout(close, silence)
      take(JSON.parse(message.data as string) as Frame)
    }
    socket.onclose = socket.onerror = close
    return close
  })
}
