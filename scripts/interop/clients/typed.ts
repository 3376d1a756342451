// What the compiler accepts of the client in TypeScript, and what it refuses.
import { type Frame, type FeedFrame, Sluice, SluiceError, type Subscription } from '../../../pkg/typescript/dist/index.js'

declare const sluice: Sluice

const created = await sluice.createSubscription({ body: { pattern: '/orders/**', endpoint: { url: 'https://erp.example/hook' }, policy: { ordering: 'path' } } })
created.state satisfies Subscription['state']
if (created.mode !== 'mirror') created.secret satisfies string | undefined
const mirror = await sluice.createSubscription({ body: { mode: 'mirror', source: 'default' } })
if (mirror.mode === 'mirror') mirror.source satisfies string
// @ts-expect-error: a mirror has no pattern
created.pattern
await sluice.listNamespaces()
await sluice.deleteSubscription({ id: created.id }) satisfies void

// @ts-expect-error: an argument is missing
await sluice.getSubscription({})
// @ts-expect-error: no such member
await sluice.createSubscription({ body: { pattern: '/orders/**', endpoint: { url: '' }, paterns: [] } })
// @ts-expect-error: no such value
await sluice.listSubscriptions({ mode: 'pull' })
// @ts-expect-error: an object has no such member
created.nothing

for await (const { id, data } of sluice.feed({ ns: 'default', pattern: '/orders/**' })) {
  id satisfies string
  if ('event' in data) data.event.id satisfies string
  if ('lagged' in data) data.lagged.missed_count satisfies number
}
export const frames: AsyncIterable<Frame<FeedFrame>> = sluice.feed({ ns: 'default' })
try {
  await sluice.healthz()
} catch (problem) {
  if (problem instanceof SluiceError) problem.code satisfies string
}
