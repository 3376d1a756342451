// Packages on top of Durable Streams against a real server: documents of Yjs, whose server counts offsets up and knows an
// origin only, and chats of the AI SDK.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDurableChatTransport, toDurableStreamResponse } from '@durable-streams/aisdk-transport'
import { YjsProvider } from '@durable-streams/y-durable-streams'
import { YjsServer } from '@durable-streams/y-durable-streams/server'
import { stream } from '@durable-streams/client'
import * as Y from 'yjs'
import { eventually, startServer } from './sluice.mjs'

const long = { timeout: 90_000 }

/** Opens a document. */
function open(baseUrl, docId) {
  const doc = new Y.Doc()
  const provider = new YjsProvider({ doc, baseUrl, docId })
  return { provider, text: doc.getText('content') }
}

test('@durable-streams/y-durable-streams keeps a document whole, compacted or not', long, async (t) => {
  const closing = []
  t.after(async () => {
    for (const close of closing.reverse()) await close() // before the server ends
  })
  const server = await startServer(t, { SLUICE_DURABLE_AT_ROOT: 'default' })
  const headers = { authorization: `Bearer ${server.token}` }
  const yjs = new YjsServer({ port: 0, host: '127.0.0.1', dsServerUrl: server.http, dsServerHeaders: headers, compactionThreshold: 300 })
  const base = `${await yjs.start()}/v1/yjs/notes`
  closing.push(() => yjs.stop())

  const writer = open(base, 'project/one')
  closing.push(() => writer.provider.destroy())
  await eventually('the writer is there', () => writer.provider.synced)
  let want = ''
  for (let i = 0; want.length < 900; i++) {
    const word = `word ${i}, `
    writer.text.insert(writer.text.length, word)
    want += word
    await eventually(`${word}is stored`, () => writer.provider.synced) // each is an update of its own
  }
  const index = await fetch(`${server.http}/v1/stream/yjs/notes/docs/project/one/.index?offset=-1`, { headers })
  assert.equal(index.status, 200, 'it was compacted')

  const reader = open(base, 'project/one')
  closing.push(() => reader.provider.destroy())
  // The provider drops edits made before it is connected, and a snapshot may bring the whole text earlier.
  await eventually('a second client is connected', () => reader.provider.connected)
  await eventually('it has the whole document', () => reader.text.toString() === want)
  const end = 'and the end.'
  reader.text.insert(reader.text.length, end)
  await eventually('the first client has what the second wrote', () => writer.text.toString() === want + end)

  reader.provider.disconnect()
  writer.text.insert(0, 'Title: ')
  await eventually('the title is stored', () => writer.provider.synced)
  reader.provider.connect()
  await eventually('a client that was away goes on', () => reader.text.toString() === `Title: ${want}${end}`)
})

test('@durable-streams/aisdk-transport streams an answer, and a reader goes on with it', long, async (t) => {
  const server = await startServer(t, { SLUICE_DURABLE_ANONYMOUS: 'default' })
  const url = `${server.http}/streams/default/chats/7`
  const chunks = [
    { type: 'start' },
    { type: 'text-start', id: 't' },
    ...Array.from({ length: 50 }, (_, i) => ({ type: 'text-delta', id: 't', delta: `token ${i} ` })),
    { type: 'text-end', id: 't' },
    { type: 'finish' },
  ]
  let more = () => {}
  const first = new Promise((resolve) => (more = resolve))
  async function* answer() {
    for (const [i, chunk] of chunks.entries()) {
      if (i === 10) await first // the rest is written when the first reader has gone
      yield chunk
    }
  }
  let written
  const fetchClient = async (_, init) => {
    if (init.method === 'GET') return Response.json({ streamUrl: url })
    return toDurableStreamResponse({ source: answer(), stream: { writeUrl: url }, waitUntil: (task) => (written = task) })
  }
  const transport = createDurableChatTransport({ api: 'http://chat.invalid/api', fetchClient })

  const gone = new AbortController()
  const sent = await transport.sendMessages({ trigger: 'submit-message', chatId: '7', messages: [], abortSignal: gone.signal })
  const reading = sent.getReader()
  for (let i = 0; i < 10; i++) assert.deepEqual((await reading.read()).value, chunks[i])
  const { offset } = await stream({ url, offset: '-1', live: false }).then(async (r) => ({ data: await r.json(), offset: r.offset }))
  gone.abort()
  more()
  await written

  const whole = []
  for await (const chunk of await transport.reconnectToStream({ chatId: '7' })) whole.push(chunk)
  assert.deepEqual(whole, chunks)
  const rest = await stream({ url, offset, live: 'sse', json: true })
  const behind = []
  for await (const chunk of rest.jsonStream()) behind.push(chunk)
  assert.deepEqual(behind, chunks.slice(10))
})
