// A feed by the browser's EventSource. It comes back by itself behind the last id for as long as its ticket is good; then it
// gets another one.
import { type Feed, type Frame, follow } from './feed.js'

export function followEvents(feed: Feed): () => void {
  return follow(feed, (url, take, end) => {
    const source = new EventSource(url)
    source.onmessage = (message) => take(JSON.parse(message.data as string) as Frame, message.lastEventId)
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) end()
    }
    return () => source.close()
  })
}
