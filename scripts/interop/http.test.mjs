// Events that are POSTed in the four forms of the HTTP API arrive signed; errors have one shape.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startReceiver, startServer, verified } from './sluice.mjs'

test('fetch publishes and standardwebhooks verifies', async (t) => {
  const server = await startServer(t)

  await t.test('structured', async (t) => {
    const receiver = await startReceiver(t)
    const { secret } = await server.subscribe('/h/structured', receiver.url)
    const sent = { specversion: '1.0', id: 'h-1', type: 'a.b', source: '/h', path: '/h/structured', data: { n: 1 } }
    const { status, json } = await server.publish(JSON.stringify(sent), { 'content-type': 'application/cloudevents+json' })
    assert.equal(status, 201, JSON.stringify(json))
    const [stored] = json.events
    assert.deepEqual(stored, { id: 'h-1', seq: stored.seq, path: '/h/structured', duplicate: false })

    const [request] = await receiver.exactly(1)
    const { id, type, source, data, sequence } = verified(request, secret)
    assert.deepEqual({ id, type, source, data }, { id: 'h-1', type: 'a.b', source: '/h', data: { n: 1 } })
    assert.equal(Number(sequence), stored.seq)
  })

  await t.test('binary', async (t) => {
    const receiver = await startReceiver(t)
    const { secret } = await server.subscribe('/h/binary', receiver.url)
    const { status, json } = await server.publish('{"n":2}', {
      'content-type': 'application/json',
      'ce-specversion': '1.0',
      'ce-id': 'h-2',
      'ce-type': 'a.b',
      'ce-source': '/h',
      'ce-path': '/h/binary',
      'ce-region': 'eu',
    })
    assert.equal(status, 201, JSON.stringify(json))
    const [request] = await receiver.exactly(1)
    const { id, region, data } = verified(request, secret)
    assert.deepEqual({ id, region, data }, { id: 'h-2', region: 'eu', data: { n: 2 } })
  })

  await t.test('short form, with a secret of our own', async (t) => {
    const receiver = await startReceiver(t)
    const secret = 'whsec_' + Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')
    await server.subscribe('/h/short', receiver.url, { endpoint: { url: receiver.url, secret } })
    const { status, json } = await server.publish({ path: '/h/short', type: 'a.c', data: { n: 3 } })
    assert.equal(status, 201, JSON.stringify(json))
    const [request] = await receiver.exactly(1)
    const event = verified(request, secret)
    assert.equal(event.id, json.events[0].id)
    assert.equal(event.type, 'a.c')
    assert.deepEqual(event.data, { n: 3 })
  })

  await t.test('JSON goes along byte for byte', async (t) => {
    const receiver = await startReceiver(t)
    const { secret } = await server.subscribe('/h/bytes', receiver.url)
    const data = '{"z": 1.0, "a": "<&>\\u00e9é", "big": 12345678901234567890, "e": 1E3, "a": 2}'
    const forms = [
      [`{"path":"/h/bytes","type":"a.b","data":${data}}`, 'application/json'],
      [`{"specversion":"1.0","id":"y-1","type":"a.b","source":"/h","path":"/h/bytes","data":${data}}`, 'application/cloudevents+json'],
    ]
    for (const [body, type] of forms) {
      const { status, json } = await server.publish(body, { 'content-type': type })
      assert.equal(status, 201, JSON.stringify(json))
    }
    for (const request of await receiver.exactly(forms.length)) {
      verified(request, secret)
      assert.ok(request.body.includes(`"data":${data}`), request.body)
    }
  })

  await t.test('a batch keeps its order', async (t) => {
    const receiver = await startReceiver(t)
    const { secret } = await server.subscribe('/h/batch', receiver.url)
    const batch = Array.from({ length: 50 }, (_, n) => (
      { specversion: '1.0', id: `b-${n}`, type: 'a.b', source: '/h', path: '/h/batch', data: { n } }
    ))
    const { status, json } = await server.publish(JSON.stringify(batch), { 'content-type': 'application/cloudevents-batch+json' })
    assert.equal(status, 201, JSON.stringify(json))
    assert.deepEqual(json.events.map((e) => e.id), batch.map((e) => e.id))
    const requests = await receiver.exactly(batch.length)
    assert.deepEqual(requests.map((r) => verified(r, secret).data.n), batch.map((e) => e.data.n))
  })

  await t.test('the same id again is a duplicate and is not delivered again', async (t) => {
    const receiver = await startReceiver(t)
    await server.subscribe('/h/twice', receiver.url)
    const event = { specversion: '1.0', id: 't-1', type: 'a.b', source: '/h', path: '/h/twice', data: {} }
    const headers = { 'content-type': 'application/cloudevents+json' }
    const first = await server.publish(JSON.stringify(event), headers)
    const second = await server.publish(JSON.stringify(event), headers)
    assert.equal(second.json.events[0].duplicate, true)
    assert.equal(second.json.events[0].seq, first.json.events[0].seq)
    await receiver.exactly(1)
  })

  await t.test('the deliveries of a subscription show the attempt', async (t) => {
    const receiver = await startReceiver(t)
    const { id } = await server.subscribe('/h/log', receiver.url)
    const { json } = await server.publish({ path: '/h/log', type: 'a.b', data: {} })
    await receiver.exactly(1)
    const delivery = await eventually('the delivery with its attempt', async () => {
      const { json: found } = await server.call('GET', `/v1/subscriptions/${id}/deliveries/${json.events[0].id}`)
      return found.attempts?.length === 1 && found
    })
    assert.equal(delivery.attempts[0].number, 1)
    assert.equal(delivery.attempts[0].status, 204)
  })

  await t.test('errors have one shape and their own status', async () => {
    const headers = { 'content-type': 'application/cloudevents+json' }
    const cases = [
      [400, 'invalid_request', () => server.publish('{', headers)],
      [400, 'invalid_request', () => server.publish({ path: 'no-slash', type: 'a', data: {} })],
      [401, 'unauthenticated', () => server.publish({ path: '/a', type: 'a' }, { authorization: 'Bearer wrong' })],
      [404, 'subscription_not_found', () => server.call('GET', '/v1/subscriptions/nobody')],
    ]
    for (const [status, code, call] of cases) {
      const reply = await call()
      assert.equal(reply.status, status, JSON.stringify(reply.json))
      assert.equal(reply.json.ok, false)
      assert.equal(reply.json.error.code, code)
      assert.ok(reply.json.error.message)
      assert.ok(reply.json.request_id)
    }
  })
})
