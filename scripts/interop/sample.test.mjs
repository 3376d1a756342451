// Events of a large real producer go in by `sluice pub --from FILE` and come out whole: each
// once, signed, in order per path, with the same data. SLUICE_SAMPLE names another file of
// lines {"id","type","path","data"}.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { startReceiver, startServer, verified } from './sluice.mjs'

const file = process.env.SLUICE_SAMPLE ?? ['../../../shared/data/github-webhooks.jsonl', 'testdata/sample.jsonl']
  .map((name) => fileURLToPath(new URL(name, import.meta.url)))
  .find((name) => existsSync(name))

const sent = readFileSync(file, 'utf8').split('\n').filter((line) => line !== '').map((line) => JSON.parse(line))

test(`a file of ${sent.length} sample events arrives whole`, async (t) => {
  const server = await startServer(t)
  const receiver = await startReceiver(t)
  const { secret } = await server.subscribe('/**', receiver.url)
  await server.cli('pub', '--from', file)

  const requests = await receiver.exactly(sent.length, 60_000)
  const received = requests.map((request) => verified(request, secret))
  const byID = new Map(received.map((event) => [event.id, event]))
  assert.equal(byID.size, sent.length, 'each arrives once')

  for (const { id, type, data } of sent) {
    const event = byID.get(id)
    assert.ok(event, `${id} arrives`)
    assert.equal(event.type, type)
    assert.deepEqual(event.data, data, id)
    assert.equal(JSON.stringify(event.data), JSON.stringify(data), `${id}: the same JSON`)
  }

  const pathOf = new Map(sent.map(({ id, path }) => [id, path]))
  const perPath = (ids) => group(ids, (id) => pathOf.get(id))
  assert.deepEqual(perPath(received.map(({ id }) => id)), perPath(sent.map(({ id }) => id)), 'in order per path')
})

function group(ids, keyOf) {
  const groups = Object.create(null)
  for (const id of ids) (groups[keyOf(id)] ??= []).push(id)
  return groups
}
