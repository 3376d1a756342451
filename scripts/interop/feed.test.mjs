// Feeds in a page: the examples of docs/examples/feed, with the browser's EventSource and WebSocket, under Node and in
// Chromium.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from 'nats'
import { browser, compile, findChromium, node } from './feedreaders.mjs'
import { startServer } from './sluice.mjs'

const long = { timeout: 180_000 }
const upTo = (last, first = 1) => Array.from({ length: last - first + 1 }, (_, i) => first + i)

/** Returns what opens readers, in each of the surroundings that this machine has. */
async function surroundings(t) {
  const dir = await compile(t)
  const all = [node(t, dir)]
  if (findChromium()) all.push(await browser(t, dir))
  return all
}

/** Opens readers, of each surroundings one with an EventSource and one with a WebSocket, and waits for their connections. */
async function openAll(all, wish) {
  const readers = await Promise.all(all.flatMap((open) => ['events', 'socket'].map((how) => open(how, wish))))
  await Promise.all(readers.map((r) => r.live()))
  return readers
}

/** Publishes an event with a number, again and again until it is stored: once, since it has an id. */
async function publish(server, path, n, more = {}) {
  for (;;) {
    const reply = await server.publish({ id: `${path}-${n}`, path, type: 'a.b', data: { n, ...more } }).catch(() => undefined)
    if (reply?.status === 201) return reply.json.events[0].seq
    assert.ok(!reply || reply.status >= 500, JSON.stringify(reply))
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

if (!findChromium()) test('feeds in Chromium', { skip: 'there is none here' }, () => {})

test('feeds in a page', long, async (t) => {
  const server = await startServer(t)
  const all = await surroundings(t)
  const nc = await connect({ servers: server.nats })
  t.after(() => nc.close())
  const { http, token } = server

  await t.test('show what was there, and what REST and nats.js publish, each once and in order', async () => {
    for (const n of upTo(5)) await publish(server, '/live', n)
    const readers = await openAll(all, { server: http, token, since: '-1', query: { pattern: '/live' } })
    for (const n of upTo(10, 6)) {
      await publish(server, '/live', n)
      await publish(server, '/elsewhere', n)
    }
    for (const n of upTo(15, 11)) await nc.jetstream().publish('events.default.live', JSON.stringify({ n }))
    for (const r of readers) {
      await r.events(15)
      assert.deepEqual(r.numbers(), upTo(15), r.name)
    }
  })

  await t.test('hold back what is coalesced', async () => {
    const readers = await openAll(all, { server: http, token, query: { pattern: '/many', coalesce_labels: 'type', coalesce_window_ms: '1000' } })
    const batch = upTo(20).map((n) => ({ specversion: '1.0', id: `many-${n}`, type: 'a.b', source: '/s', path: '/many', data: { n } }))
    const { status, json } = await server.publish(JSON.stringify(batch), { 'content-type': 'application/cloudevents-batch+json' })
    assert.equal(status, 201, JSON.stringify(json))
    for (const r of readers) {
      await r.events(1)
      assert.deepEqual([r.shown[0].coalesced, r.shown[0].seq], [20, json.events.at(-1).seq], r.name)
    }
  })

  await t.test('end with the access, and say why', async () => {
    const grant = await server.call('POST', '/v1/grants', {
      principal: 'user:page', verbs: ['read'], object: 'path:default/page/**', expires_at: new Date(Date.now() + 3600_000).toISOString(),
    })
    assert.equal(grant.status, 201, JSON.stringify(grant.json))
    const readers = await openAll(all, { server: http, token: grant.json.token })
    await publish(server, '/live', 16)
    await publish(server, '/page/1', 1)
    await Promise.all(readers.map((r) => r.events(1)))
    assert.equal((await server.call('POST', `/v1/grants/${grant.json.id}/revoke`)).status, 200)
    await publish(server, '/page/1', 2)
    for (const r of readers) {
      const why = await r.ended()
      assert.ok(['forbidden', 'not_found', 'unauthenticated'].includes(why.code), `${r.name}: ${JSON.stringify(why)}`)
      await r.events(1)
      assert.deepEqual(r.shown.map((e) => e.path), ['/page/1'], r.name)
    }
  })

  await t.test('say why they do not begin', async () => {
    for (const open of all) {
      for (const how of ['events', 'socket']) {
        const r = await open(how, { server: http, token, query: { cel: '1+' } })
        assert.equal((await r.ended()).code, 'invalid_request', r.name)
      }
    }
  })
})

test('feeds in a page go on where they were when the server is killed, or goes away', long, async (t) => {
  const server = await startServer(t)
  const all = await surroundings(t)
  const { http, token } = server
  const lasting = await openAll(all, { server: http, token, ttl: '1h', query: { pattern: '/a' } })
  const fleeting = await openAll(all, { server: http, token, ttl: '1s', query: { pattern: '/a' } })
  const readers = [...lasting, ...fleeting]
  const coalescing = await openAll(all, { server: http, token, query: { pattern: '/a', coalesce_labels: 'k', coalesce_window_ms: '1000' } })
  const last = 60
  let killed = Promise.resolve()
  for (const n of upTo(last)) {
    if (n === 30) killed = server.end('SIGKILL').then(() => server.start()) // while others are published
    await publish(server, '/a', n, n % 2 === 0 ? { k: 'even' } : {})
  }
  await killed
  for (const r of readers) {
    await r.events(last)
    assert.deepEqual(r.numbers(), upTo(last), r.name)
    assert.deepEqual(r.shown.map((e) => e.seq), r.shown.map((e) => e.seq).sort((a, b) => a - b), r.name)
    assert.ok(r.of('live').length > 1, `${r.name} had another connection`)
  }
  for (const r of lasting.filter((r) => r.name.endsWith('events'))) {
    assert.equal(r.of('ticket').length, 1, `${r.name} came back by itself, behind its Last-Event-ID`)
  }
  for (const r of fleeting) assert.ok(r.of('ticket').length > 1, `${r.name} got another ticket`)
  for (const r of coalescing) { // an odd one passes at once; of the even ones the last is shown, though it may be held back when the server is killed
    await r.untilShown(last)
    for (const n of upTo(last).filter((n) => n % 2 === 1)) assert.ok(r.numbers().includes(n), `${r.name}: ${n}`)
    const even = r.shown.filter((w) => w.n % 2 === 0)
    assert.ok(even.length < last / 2, `${r.name} coalesces`)
    assert.equal(even.at(-1).n, last, r.name)
  }

  await server.end('SIGTERM') // it takes leave of its readers
  await server.start()
  for (const n of upTo(last + 20, last + 1)) await publish(server, '/a', n)
  for (const r of readers) {
    await r.events(last + 20)
    assert.deepEqual(r.numbers(), upTo(last + 20), r.name)
    assert.ok(r.of('away').some((w) => w.problem.includes('unavailable')), `${r.name} was told why`)
  }
})

test('feeds in a page that are too slow are told exactly what they missed', long, async (t) => {
  const server = await startServer(t, { SLUICE_FEED_RING: '16' })
  const all = await surroundings(t)
  const readers = await openAll(all, { server: server.http, token: server.token, query: { pattern: '/large', buffer: '8' } })
  const releases = await Promise.all(readers.map((r) => r.hold()))
  const pad = 'x'.repeat(100 << 10)
  const seqs = []
  for (const n of upTo(300)) {
    seqs.push(await publish(server, '/large', n, { pad }))
    if (n % 3 === 0) await publish(server, '/small', n)
  }
  await Promise.all(releases.map((release) => release()))
  seqs.push(await publish(server, '/large', 301)) // the last one is not missed
  for (const r of readers) {
    await r.untilShown(301)
    assert.ok(r.of('lagged').length > 0, `${r.name} was too slow`)
    let seen = 0
    let missed = 0
    for (const [i, what] of r.told.entries()) {
      if (what.kind === 'event') {
        assert.ok(what.seq > seen, r.name)
        seen = what.seq
      }
      if (what.kind !== 'lagged') continue
      assert.equal(what.missed_count, seqs.filter((s) => s > seen && s < what.oldest_available_seq).length, `${r.name}: ${JSON.stringify(what)}`)
      assert.equal(r.told[i + 1].seq, what.oldest_available_seq, r.name)
      missed += what.missed_count
    }
    assert.equal(r.shown.length + missed, seqs.length, `${r.name}: shown or missed, and told`)
    assert.equal(r.of('live').length, 1, `${r.name} stays`)
  }
})

test('a feed over a WebSocket notices that the server is silent', long, async (t) => {
  const server = await startServer(t, { SLUICE_FEED_HEARTBEAT: '1s' })
  const all = await surroundings(t)
  const readers = await Promise.all(all.map((open) => open('socket', { server: server.http, token: server.token, silence: 4000, query: { pattern: '/a' } })))
  await Promise.all(readers.map((r) => r.live()))
  await publish(server, '/a', 1)
  await Promise.all(readers.map((r) => r.events(1)))
  server.child.kill('SIGSTOP')
  try {
    await Promise.all(readers.map((r) => r.away()))
  } finally {
    server.child.kill('SIGCONT')
  }
  await publish(server, '/a', 2)
  for (const r of readers) {
    await r.live(1)
    await r.events(2)
    assert.deepEqual(r.numbers(), [1, 2], r.name)
  }
})
