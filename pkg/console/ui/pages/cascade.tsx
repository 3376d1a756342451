import type { JSX } from 'preact'
import type * as T from '../../../typescript/src/types.js'
import { counted, visible } from '../lib/format.js'
import { eventHref } from '../lib/route.js'
import { Empty } from '../parts/basic.js'

const [width, rowHeight, indent] = [640, 34, 28]

interface Node {
  event: T.StoryEvent
  depth: number
  from: number
}

/** Orders what happened: causes first, then each event behind the one that caused it. */
function tree(story: T.EventDeliveries): Node[] {
  const nodes: Node[] = []
  for (const event of [...story.causes].reverse()) nodes.push({ event, depth: nodes.length, from: nodes.length - 1 })
  const add = (event: T.StoryEvent, depth: number, from: number): void => {
    const at = nodes.push({ event, depth, from }) - 1
    for (const next of story.consequences.filter((c) => c.caused_by === event.id)) if (!nodes.some((n) => n.event.id === next.id)) add(next, depth + 1, at)
  }
  add(story.event, nodes.length, nodes.length - 1)
  return nodes
}

/** The chain of events as a picture, whose nodes are links. */
export function Cascade({ ns, story }: { ns: string; story: T.EventDeliveries }): JSX.Element {
  if (story.causes.length + story.consequences.length === 0) return <Empty>Nothing caused it, and nothing followed{story.complete ? '' : ' so far'}.</Empty>
  const nodes = tree(story)
  const x = (n: Node): number => 14 + Math.min(n.depth, 12) * indent
  const y = (i: number): number => i * rowHeight + rowHeight / 2
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Chain of events">
      <svg class="cascade" width={width} height={nodes.length * rowHeight} role="group" aria-label={`${counted(story.causes.length, 'cause')} and ${counted(story.consequences.length, 'consequence')}`}>
        {nodes.map((n, i) => {
          const parent = nodes[n.from]
          return parent && <path key={n.event.id} d={`M${x(parent)} ${y(n.from)} V${y(i)} H${x(n)}`} />
        })}
        {nodes.map((n, i) => (
          <a key={n.event.id} href={eventHref(ns, n.event.id)} aria-current={n.event.id === story.event.id ? 'true' : undefined}>
            <circle cx={x(n)} cy={y(i)} r={n.event.id === story.event.id ? 7 : 5} />
            <text x={x(n) + 14} y={y(i) + 5}>{visible(`${n.event.type} ${n.event.path}`)}</text>
          </a>
        ))}
      </svg>
      {!story.complete && <p class="quiet">Later events were not all searched.</p>}
    </div>
  )
}
