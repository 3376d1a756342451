// The public clients of Durable Streams, @durable-streams/client and @durable-streams/state, write to and read
// from a real server.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { DurableStream, DurableStreamError, FetchError, IdempotentProducer, StaleEpochError, stream } from '@durable-streams/client'
import { MaterializedState, createStateSchema } from '@durable-streams/state'
import { createStreamDB, eq, queryOnce } from '@durable-streams/state/db'
import { eventually, startReceiver, startServer, verified } from './sluice.mjs'

const JSONType = 'application/json'
const long = { timeout: 60_000 }

/** A server, and what a client needs for a path of it. Long-polls end early, so that they end in the tests. */
async function start(t) {
  const server = await startServer(t, { SLUICE_DURABLE_LONG_POLL: '500ms' })
  const at = (path, more = {}) => ({
    url: `${server.http}/streams/default${path}`,
    headers: { authorization: `Bearer ${server.token}` },
    ...more,
  })
  return { server, at }
}

/** Reads everything there is and returns it, and where to go on. */
async function readAll(options) {
  const response = await stream({ ...options, live: false })
  const data = await (response.contentType?.startsWith(JSONType) ? response.json() : response.text())
  assert.equal(response.upToDate, true)
  return { data, offset: response.offset, closed: response.streamClosed }
}

/** Says whether an error is the client's about a status. */
const refused = (status) => (e) => (e instanceof FetchError || e instanceof DurableStreamError) && e.status === status

const numbers = (n, from = 0) => Array.from({ length: n }, (_, i) => ({ n: from + i }))

test('@durable-streams/client makes, describes, closes and deletes streams', long, async (t) => {
  const { at } = await start(t)

  await t.test('a stream and its end', async () => {
    const options = at('/c/life')
    assert.equal((await DurableStream.head(options)).exists, false)
    const handle = await DurableStream.create({ ...options, contentType: 'text/plain', ttlSeconds: 3600, body: 'one,' })
    await handle.append('two,', { seq: 'b' })
    await assert.rejects(handle.append('late,', { seq: 'a' }), refused(409))
    const connected = await DurableStream.connect(options)
    assert.equal(connected.contentType, 'text/plain')
    const head = await connected.head()
    assert.deepEqual([head.exists, head.streamClosed], [true, false])

    const { finalOffset } = await handle.close({ body: 'three' })
    assert.ok(finalOffset > head.offset)
    assert.equal((await handle.close()).finalOffset, finalOffset, 'closing again changes nothing')
    assert.deepEqual(await readAll(options), { data: 'one,two,three', offset: finalOffset, closed: true })
    await assert.rejects(handle.append('four'), (e) => refused(409)(e) && e.headers['stream-closed'] === 'true' && e.headers['stream-next-offset'] === finalOffset)
    assert.equal((await handle.head()).streamClosed, true)

    await DurableStream.delete(options)
    assert.equal((await handle.head()).exists, false)
  })

  await t.test('the same stream again is there, another one is a conflict', async () => {
    await DurableStream.create(at('/c/same', { contentType: JSONType }))
    await DurableStream.create(at('/c/same', { contentType: JSONType }))
    await assert.rejects(DurableStream.create(at('/c/same', { contentType: 'text/plain' })), refused(409))
  })

  await t.test('closed from the beginning, and with an end', async () => {
    const expiresAt = '2100-01-01T00:00:00Z'
    const options = at('/c/closed', { contentType: 'text/plain', body: 'all', closed: true, expiresAt })
    const handle = await DurableStream.create(options)
    assert.deepEqual([(await readAll(at('/c/closed'))).data, (await handle.head()).streamClosed], ['all', true])
  })

  await t.test('a wrong token is refused, and one that is renewed is taken', async () => {
    await DurableStream.create(at('/c/token', { contentType: JSONType, body: '[1]' }))
    const wrong = { url: at('/c/token').url, headers: { authorization: 'Bearer wrong' } }
    await assert.rejects(stream({ ...wrong, live: false }), refused(401))
    let asked = 0
    const onError = () => (asked++ === 0 ? { headers: at('').headers } : undefined)
    assert.deepEqual(await (await stream({ ...wrong, live: false, onError })).json(), [1])
    assert.equal(asked, 1)
  })

  await t.test('a fork, by the headers that the client passes on', async () => {
    const source = await DurableStream.create(at('/c/source', { contentType: JSONType, body: '[1,2]' }))
    const { offset } = await source.head()
    await source.append('3')
    const fork = at('/c/fork')
    await DurableStream.create({
      ...fork, contentType: JSONType, headers: { ...fork.headers, 'Stream-Forked-From': '/c/source', 'Stream-Fork-Offset': offset },
    })
    const handle = new DurableStream(fork)
    await handle.append('4', { contentType: JSONType })
    assert.deepEqual((await readAll(fork)).data, [1, 2, 4])
    assert.deepEqual((await readAll(at('/c/source'))).data, [1, 2, 3])
  })
})

test('@durable-streams/client appends', long, async (t) => {
  const { server, at } = await start(t)

  await t.test('many at once, in batches, each once and in order', async () => {
    const handle = await DurableStream.create(at('/a/batched', { contentType: JSONType }))
    await Promise.all(numbers(500).map((m) => handle.append(JSON.stringify(m))))
    assert.deepEqual((await readAll(at('/a/batched'))).data, numbers(500))
  })

  await t.test('one by one, without batches', async () => {
    const handle = await DurableStream.create(at('/a/single', { contentType: JSONType, batching: false }))
    for (const m of numbers(20)) await handle.append(JSON.stringify(m))
    assert.deepEqual((await readAll(at('/a/single'))).data, numbers(20))
  })

  await t.test('bytes above the size of a message', async () => {
    const handle = await DurableStream.create(at('/a/bytes', { contentType: 'application/octet-stream' }))
    const sent = Buffer.alloc(5 << 20, Uint8Array.from({ length: 251 }, (_, i) => i))
    await handle.append(sent)
    const whole = await (await stream({ ...at('/a/bytes'), live: true })).body()
    assert.equal(Buffer.compare(Buffer.from(whole), sent), 0)
    // Without live the client stops at the end of the first page, and says that it is not the end.
    const pages = []
    for (let offset, last; !last?.upToDate; offset = last.offset) {
      last = await stream({ ...at('/a/bytes'), live: false, offset })
      pages.push(Buffer.from(await last.body()))
    }
    assert.ok(pages.length > 1)
    assert.equal(Buffer.compare(Buffer.concat(pages), sent), 0)
  })

  await t.test('a source that comes bit by bit, and a writable stream', async () => {
    const handle = await DurableStream.create(at('/a/piped', { contentType: 'text/plain' }))
    await handle.appendStream((async function* () { yield* ['a', 'b', 'c'] })())
    await new Response('defg').body.pipeTo(handle.writable())
    const { data, closed } = await readAll(at('/a/piped'))
    assert.equal(data, 'abcdefg')
    assert.equal(typeof closed, 'boolean')
  })

  await t.test('what is appended is an event, and what is published is read', async (t) => {
    const receiver = await startReceiver(t)
    const { secret } = await server.subscribe('/a/event', receiver.url, { policy: { ordering: 'all' } })
    const handle = await DurableStream.create(at('/a/event', { contentType: JSONType }))
    await handle.append('{"from":"the client"}')
    const { status } = await server.publish({ path: '/a/event', type: 'a.b', data: { from: 'REST' } })
    assert.equal(status, 201)
    const requests = await receiver.exactly(2)
    assert.deepEqual(requests.map((r) => verified(r, secret).data.from), ['the client', 'REST'])
    assert.deepEqual((await readAll(at('/a/event'))).data, [{ from: 'the client' }, { from: 'REST' }])
  })
})

test('IdempotentProducer', long, async (t) => {
  const { at } = await start(t)

  await t.test('sends batches in parallel, each stored once, though answers are lost', async () => {
    const handle = await DurableStream.create(at('/p/lossy', { contentType: JSONType }))
    let posts = 0
    let lost = 0
    // Every third answer is lost after the server has stored what was sent, which is then sent again.
    const lossy = async (url, init) => {
      for (;;) {
        const response = await fetch(url, init)
        if (++posts % 3 !== 0) return response
        lost++
        await response.arrayBuffer()
      }
    }
    const errors = []
    const producer = new IdempotentProducer(handle, 'lossy', { fetch: lossy, lingerMs: 0, maxBatchBytes: 100, onError: (e) => errors.push(e) })
    for (const m of numbers(200)) producer.append(JSON.stringify(m))
    await producer.flush()
    await producer.detach()
    assert.deepEqual(errors, [])
    assert.ok(lost > 2, `${lost} answers were lost`)
    assert.deepEqual((await readAll(at('/p/lossy'))).data, numbers(200))
  })

  await t.test('a later life ends the one before it, and claims its place by itself', async () => {
    const handle = await DurableStream.create(at('/p/lives', { contentType: JSONType }))
    const errors = []
    const first = new IdempotentProducer(handle, 'p', { onError: (e) => errors.push(e) })
    first.append('1')
    await first.flush()
    const second = new IdempotentProducer(handle, 'p', { epoch: 1 })
    second.append('2')
    await second.flush()
    first.append('"of the one that was ended"')
    await first.flush().catch((e) => errors.push(e))
    assert.ok(errors.some((e) => e instanceof StaleEpochError && e.currentEpoch === 1), String(errors))
    const third = new IdempotentProducer(handle, 'p', { autoClaim: true })
    third.append('3')
    await third.flush()
    assert.equal(third.epoch, 2)
    const { finalOffset } = await third.close('4')
    assert.deepEqual(await readAll(at('/p/lives')), { data: [1, 2, 3, 4], offset: finalOffset, closed: true })
    await Promise.allSettled([first.detach(), second.detach()])
  })
})

for (const live of ['long-poll', 'sse']) {
  test(`@durable-streams/client reads by ${live}`, long, async (t) => {
    const { at } = await start(t)

    await t.test('what was there, what comes, and the end', async () => {
      const path = `/r/${live}/whole`
      const handle = await DurableStream.create(at(path, { contentType: JSONType, batching: false, body: JSON.stringify(numbers(10)) }))
      const response = await stream({ ...at(path), live })
      const seen = []
      response.subscribeJson((batch) => { seen.push(...batch.items) })
      await eventually('what was there', () => seen.length === 10)
      await pause(700) // a long-poll ends without anything having come
      for (const m of numbers(20, 10)) await handle.append(JSON.stringify(m))
      await handle.close({ body: JSON.stringify({ n: 30 }) })
      await response.closed
      await eventually('the end', () => seen.length >= 31) // the client may hand it over a moment later
      assert.deepEqual(seen, numbers(31))
      assert.equal(response.streamClosed, true)
    })

    await t.test('goes on where it was, whatever was in between', async () => {
      const path = `/r/${live}/resumed`
      const handle = await DurableStream.create(at(path, { contentType: JSONType, batching: false }))
      const seen = []
      let offset
      const read = async (upTo, from) => {
        const response = await stream({ ...at(path), live, offset: from })
        response.subscribeJson((batch) => {
          seen.push(...batch.items)
          offset = batch.offset
        })
        await eventually(`${upTo} messages`, () => seen.length >= upTo)
        response.cancel()
      }
      for (const m of numbers(5)) await handle.append(JSON.stringify(m))
      await read(5)
      for (const m of numbers(5, 5)) await handle.append(JSON.stringify(m))
      await read(10, offset)
      const more = read(15, offset)
      for (const m of numbers(5, 10)) await handle.append(JSON.stringify(m))
      await more
      assert.deepEqual(seen, numbers(15))
    })

    await t.test('from now on', async () => {
      const path = `/r/${live}/now`
      const handle = await DurableStream.create(at(path, { contentType: 'text/plain', batching: false, body: 'before' }))
      const response = await handle.stream({ live, offset: 'now' })
      let text = ''
      response.subscribeText((chunk) => { text += chunk.text })
      await handle.append('ä\r\n\r\ndata: x\n')
      await handle.append(' after')
      await handle.close()
      await response.closed
      await eventually('the end', () => text.endsWith('after'))
      // In server-sent events each line end is the same one.
      assert.equal(text.replaceAll('\r\n', '\n'), 'ä\n\ndata: x\n after')
    })

    await t.test('bytes that are no text', async () => {
      const path = `/r/${live}/bytes`
      const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
      const handle = await DurableStream.create(at(path, { contentType: 'application/octet-stream', batching: false, body: bytes }))
      const response = await handle.stream({ live })
      const parts = []
      response.subscribeBytes((chunk) => { parts.push(Buffer.from(chunk.data)) })
      await eventually('what was there', () => Buffer.concat(parts).length === 256)
      await handle.append(bytes)
      await handle.close()
      await response.closed
      await eventually('the end', () => Buffer.concat(parts).length >= 512)
      assert.deepEqual(Buffer.concat(parts), Buffer.concat([bytes, bytes]))
    })
  })
}

test('@durable-streams/client reads iterators until the end', long, async (t) => {
  const { at } = await start(t)
  const handle = await DurableStream.create(at('/r/iterated', { contentType: JSONType, body: '[1,2]' }))
  const response = await handle.stream({ live: true })
  const seen = []
  for await (const item of response.jsonStream()) {
    seen.push(item)
    if (seen.length === 2) await handle.append('3')
    if (seen.length === 3) await handle.close()
  }
  assert.deepEqual(seen, [1, 2, 3])
})

test('@durable-streams/client reads a mirror', long, async (t) => {
  const { server, at } = await start(t)
  for (const [method, path, body] of [
    ['PUT', '/v1/namespaces/low', {}],
    ['PUT', '/v1/namespaces/high', {}],
    ['POST', '/v1/namespaces/low/events', { path: '/a', id: 'one', data: { n: 1 } }],
    ['POST', '/v1/subscriptions', { id: 'm', mode: 'mirror', namespace: 'high', source: 'low', depth: 'full' }],
  ]) {
    const { status, json } = await server.call(method, path, body)
    assert.equal(status, 201, JSON.stringify(json))
  }
  const sync = async () => assert.equal((await server.call('POST', '/v1/subscriptions/m/sync?wait=30s')).status, 200)
  await sync()
  const options = at('', { url: `${server.http}/v1/namespaces/high/items/stream?subscription=m` })
  const { exists, contentType } = await DurableStream.head(options)
  assert.deepEqual([exists, contentType], [true, JSONType])
  const ids = (items) => items.map(({ id, source, origin }) => `${id} ${source} ${origin}`)
  const { data, offset } = await readAll(options)
  assert.deepEqual(ids(data), ['one mirrored low'])

  for (const [live, id] of [['long-poll', 'two'], ['sse', 'three']]) {
    const response = await stream({ ...options, live, offset: live === 'sse' ? 'now' : offset })
    const seen = []
    response.subscribeJson((batch) => { seen.push(...batch.items) })
    await server.call('POST', '/v1/namespaces/low/events', { path: '/a', id, data: {} })
    await sync()
    await eventually(`an entry by ${live}`, () => seen.length > 0)
    response.cancel()
    assert.deepEqual(ids(seen), [`${id} mirrored low`])
  }
  await assert.rejects(new DurableStream(options).append('1', { contentType: JSONType }), refused(405))

  await server.call('DELETE', '/v1/subscriptions/m')
  await server.call('POST', '/v1/subscriptions', { id: 'm', mode: 'mirror', namespace: 'high', source: 'low', depth: 'full' })
  await sync()
  await assert.rejects(stream({ ...options, live: false, offset }), refused(410))
  assert.deepEqual(ids((await readAll(options)).data), ['one mirrored low', 'two mirrored low', 'three mirrored low'])
})

/** A schema for @durable-streams/state that takes objects with an id. */
const record = {
  '~standard': {
    version: 1,
    vendor: 'interop',
    validate: (value) => (typeof value?.id === 'string' ? { value } : { issues: [{ message: 'it has no id' }] }),
  },
}
const schema = createStateSchema({
  users: { schema: record, type: 'user', primaryKey: 'id' },
  messages: { schema: record, type: 'message', primaryKey: 'id' },
})

test('@durable-streams/state', long, async (t) => {
  const { at } = await start(t)

  await t.test('state is what its events make of it', async () => {
    const handle = await DurableStream.create(at('/s/plain', { contentType: JSONType }))
    const events = [
      schema.users.insert({ value: { id: '1', name: 'Kim' } }),
      schema.users.insert({ value: { id: '2', name: 'Lou' } }),
      schema.messages.insert({ value: { id: 'm', text: 'hi' } }),
      schema.users.update({ value: { id: '1', name: 'Kim L.' }, oldValue: { id: '1', name: 'Kim' } }),
      schema.users.delete({ key: '2' }),
    ]
    for (const event of events) await handle.append(JSON.stringify(event))
    const state = new MaterializedState()
    state.applyBatch((await readAll(at('/s/plain'))).data)
    assert.deepEqual(state.get('user', '1'), { id: '1', name: 'Kim L.' })
    assert.equal(state.get('user', '2'), undefined)
    assert.deepEqual([...state.getType('message').values()], [{ id: 'm', text: 'hi' }])
  })

  for (const live of ['long-poll', 'sse']) {
    await t.test(`collections are inserted into, updated and deleted from, by ${live}`, async (t) => {
      const options = at(`/s/${live}`, { contentType: JSONType })
      const handle = await DurableStream.create(options)
      await handle.append(JSON.stringify(schema.users.insert({ value: { id: '0', name: 'first' } })))
      const open = () => {
        const db = createStreamDB({
          streamOptions: options,
          live,
          state: schema,
          actions: ({ db, stream: writer }) => {
            const send = async (event) => {
              await writer.append(JSON.stringify(event))
              await db.utils.awaitTxId(event.headers.txid, 10_000)
            }
            const headers = () => ({ txid: randomUUID() })
            return {
              add: {
                onMutate: (user) => { db.collections.users.insert(user) },
                mutationFn: (user) => send(schema.users.insert({ value: user, headers: headers() })),
              },
              rename: {
                onMutate: ({ id, name }) => { db.collections.users.update(id, (draft) => { draft.name = name }) },
                mutationFn: ({ id, name }) => send(schema.users.update({ value: { id, name }, headers: headers() })),
              },
              remove: {
                onMutate: (id) => { db.collections.users.delete(id) },
                mutationFn: (id) => send(schema.users.delete({ key: id, headers: headers() })),
              },
            }
          },
        })
        t.after(() => db.close())
        return db
      }
      const [mine, yours] = [open(), open()]
      await Promise.all([mine.preload(), yours.preload()])
      const names = (db) => db.collections.users.toArray.map(({ id, name }) => `${id} ${name}`).sort()
      assert.deepEqual(names(mine), ['0 first'])

      await mine.actions.add({ id: '1', name: 'Kim' }).isPersisted.promise
      await mine.actions.add({ id: '2', name: 'Lou' }).isPersisted.promise
      await eventually('both see both', () => names(yours).length === 3)
      await yours.actions.rename({ id: '1', name: 'Kim L.' }).isPersisted.promise
      await mine.actions.remove('2').isPersisted.promise
      for (const db of [mine, yours]) {
        await eventually('both see the end', () => names(db).join() === '0 first,1 Kim L.')
      }
      const found = await queryOnce((q) => q.from({ users: yours.collections.users }).where(({ users }) => eq(users.id, '1')))
      assert.equal(found[0].name, 'Kim L.')

      const late = open()
      await late.preload()
      assert.deepEqual(names(late), ['0 first', '1 Kim L.'], 'who comes later sees the same')
    })
  }
})
