// Events that nats.js publishes, knowing nothing of Sluice, arrive signed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect, headers } from 'nats'
import { Webhook } from 'standardwebhooks'
import { startReceiver, startServer, verified } from './sluice.mjs'

test('nats.js publishes and standardwebhooks verifies', async (t) => {
  const server = await startServer(t)
  const nc = await connect({ servers: server.nats })
  t.after(() => nc.close())
  const js = nc.jetstream()

  await t.test('a plain message is an event of type message', async (t) => {
    const receiver = await startReceiver(t)
    const { secret } = await server.subscribe('/orders/42', receiver.url)
    const ack = await js.publish('events.default.orders.42', JSON.stringify({ total: 118.5, note: 'für < & >' }))

    const [request] = await receiver.exactly(1)
    const event = verified(request, secret)
    assert.match(request.headers['content-type'], /^application\/cloudevents\+json/)
    assert.equal(request.headers['webhook-id'], event.id)
    assert.equal(request.headers['webhook-attempt'], '1')
    assert.equal(event.specversion, '1.0')
    assert.equal(event.type, 'message')
    assert.equal(Number(event.sequence), ack.seq)
    assert.ok(event.source)
    assert.ok(!Number.isNaN(Date.parse(event.time)))
    assert.deepEqual(event.data, { total: 118.5, note: 'für < & >' })
  })

  await t.test('headers become attributes', async (t) => {
    const receiver = await startReceiver(t)
    const { secret } = await server.subscribe('/invoices/**', receiver.url)
    const h = headers()
    h.set('ce-id', 'invoice-7')
    h.set('Nats-Msg-Id', 'invoice-7')
    h.set('ce-type', 'invoice.sent')
    h.set('ce-source', '/erp')
    h.set('ce-time', '2026-01-02T03:04:05Z')
    h.set('ce-subject', 'seven')
    h.set('ce-region', 'eu')
    h.set('content-type', 'application/json')
    await js.publish('events.default.invoices.7', '{"sum":7}', { headers: h })

    const [request] = await receiver.exactly(1)
    const event = verified(request, secret)
    assert.equal(request.headers['webhook-id'], 'invoice-7')
    const { id, type, source, time, subject, region, data } = event
    assert.deepEqual({ id, type, source, subject, region, data }, {
      id: 'invoice-7', type: 'invoice.sent', source: '/erp', subject: 'seven', region: 'eu', data: { sum: 7 },
    })
    assert.equal(Date.parse(time), Date.parse('2026-01-02T03:04:05Z'))
  })

  await t.test('a second message of the same id is stored and delivered once', async (t) => {
    const receiver = await startReceiver(t)
    await server.subscribe('/twice', receiver.url)
    const first = await js.publish('events.default.twice', '{}', { msgID: 'twice-1' })
    const second = await js.publish('events.default.twice', '{}', { msgID: 'twice-1' })
    assert.deepEqual([first.duplicate, second.duplicate, second.seq], [false, true, first.seq])

    const [request] = await receiver.exactly(1)
    assert.equal(request.headers['webhook-id'], 'twice-1')
  })

  await t.test('a structured CloudEvent is understood', async (t) => {
    const receiver = await startReceiver(t)
    const { secret } = await server.subscribe('/structured', receiver.url)
    const h = headers()
    h.set('content-type', 'application/cloudevents+json')
    const sent = { specversion: '1.0', id: 's-1', type: 'a.b', source: '/s', data: { x: [1, 2] } }
    await js.publish('events.default.structured', JSON.stringify(sent), { headers: h })

    const [request] = await receiver.exactly(1)
    const { specversion, id, type, source, data } = verified(request, secret)
    assert.deepEqual({ specversion, id, type, source, data }, sent)
  })

  await t.test('text and bytes that are not JSON arrive as they were', async (t) => {
    const receiver = await startReceiver(t)
    const { secret } = await server.subscribe('/blobs/*', receiver.url)
    const h = headers()
    h.set('content-type', 'application/octet-stream')
    const bytes = Uint8Array.from([0, 255, 10, 13, 128])
    await js.publish('events.default.blobs.one', bytes, { headers: h })

    const [request] = await receiver.exactly(1)
    const event = verified(request, secret)
    assert.equal(event.datacontenttype, 'application/octet-stream')
    assert.deepEqual(Buffer.from(event.data_base64, 'base64'), Buffer.from(bytes))
  })

  await t.test('a changed body or another secret does not verify', async (t) => {
    const receiver = await startReceiver(t)
    const { secret } = await server.subscribe('/forged', receiver.url)
    await js.publish('events.default.forged', '{"a":1}')

    const [request] = await receiver.exactly(1)
    verified(request, secret)
    const other = 'whsec_' + Buffer.from('another secret, of thirty-two by').toString('base64')
    assert.throws(() => new Webhook(secret).verify(request.body + ' ', request.headers))
    assert.throws(() => new Webhook(other).verify(request.body, request.headers))
  })
})

test('nats.js logs in as a user, publishes to its namespace and nowhere else', async (t) => {
  const users = [
    { name: 'shop', password: 'sesame', namespaces: ['default'] },
    { name: 'core', password: 'sesame', namespaces: ['*'], trusted: true, read: true },
  ]
  const server = await startServer(t, { SLUICE_NATS_USERS: JSON.stringify(users) })
  const login = async (user, pass = 'sesame') => {
    const nc = await connect({ servers: server.nats, user, pass })
    t.after(() => nc.close())
    return nc
  }
  const receiver = await startReceiver(t)
  const { secret } = await server.subscribe('/orders/*', receiver.url, { policy: { ordering: 'all' } })
  const shop = await login('shop')
  const core = await login('core')
  const live = core.subscribe('events.default.orders.>', { max: 2 })
  await core.flush()
  const h = headers()
  h.set('ce-authtype', 'user')
  h.set('ce-authid', 'eve')
  for (const nc of [shop, core]) {
    const ack = await nc.jetstream().publish('events.default.orders.1', '{}', { headers: h })
    assert.equal(ack.stream, 'EVENTS_default')
  }
  const requests = await receiver.exactly(2)
  assert.deepEqual(requests.map((r) => verified(r, secret).authid), [undefined, 'eve'])
  const seen = []
  for await (const m of live) seen.push(m.subject)
  assert.deepEqual(seen, ['events.default.orders.1', 'events.default.orders.1'])

  await assert.rejects(core.jetstream().publish('events.nowhere.a', '{}'), /503/)
  await assert.rejects(shop.jetstream().publish('events.other.a', '{}', { timeout: 2000 }), /permissions violation/i)
  await assert.rejects(connect({ servers: server.nats, user: 'shop', pass: 'guess', reconnect: false }), /authorization/i)
  await assert.rejects(connect({ servers: server.nats, reconnect: false }), /authorization/i)
})
