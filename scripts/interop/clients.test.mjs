// The clients of pkg/typescript and pkg/python: the same calls with the same results, types that are checked, and feeds and
// workers that go on when the server is killed.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Sluice, SluiceError } from '../../pkg/typescript/dist/index.js'
import { Worker } from '../../pkg/typescript/dist/worker.js'
import { eventually, startServer } from './sluice.mjs'

const long = { timeout: 300_000 }
const upTo = (last, first = 1) => Array.from({ length: last - first + 1 }, (_, i) => first + i)
setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')
const table = JSON.parse(await readFile(new URL('clients/calls.json', import.meta.url)))

/** Puts what is known in the place of $name. */
function filled(value, known) {
  if (typeof value === 'string') return value.replace(/\$(\w+)/g, (_, name) => known[name])
  if (Array.isArray(value)) return value.map((one) => filled(one, known))
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, filled(one, known)]))
}

/** Says where a value differs from the expected one; * stands for anything. */
function difference(want, got, at = 'it') {
  if (typeof want === 'string' && want.endsWith('*') && String(got).startsWith(want.slice(0, -1)) && got !== undefined) return
  if (want === null || typeof want !== 'object') return want === got ? undefined : `${at} is ${JSON.stringify(got)}, not ${JSON.stringify(want)}`
  if (got === null || typeof got !== 'object') return `${at} is ${JSON.stringify(got)}`
  if (Array.isArray(want) && want.length !== got.length) return `${at} has ${got.length} elements, not ${want.length}`
  return Object.keys(want).map((name) => difference(want[name], got[name], `${at}.${name}`)).find(Boolean)
}

/** Runs the program of the client in Python, and tells each line that it prints. */
function python(t, args, tell) {
  const child = spawn('python3', ['scripts/interop/clients/clients.py', ...args], { cwd: new URL('../..', import.meta.url), stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  const printed = once(child.stdout, 'close')
  createInterface(child.stdout).on('line', (line) => tell(JSON.parse(line)))
  t.after(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, ended: Promise.all([ended, printed]).then(([[status]]) => status), write: () => child.stdin.write('\n') }
}

/** Makes one call of the table with the client in TypeScript. */
async function oneCall(sluice, name, args) {
  try {
    const result = await sluice[name](args)
    if (!(result instanceof Response)) return { result: result ?? null }
    return { result: { status: result.status, headers: Object.fromEntries(result.headers), text: await result.text() } }
  } catch (problem) {
    assert.ok(problem instanceof SluiceError, problem)
    return { error: { code: problem.code, status: problem.status, details: problem.details, request_id: problem.requestId } }
  }
}

const languages = {
  TypeScript: {
    async calls(t, server, names) {
      const sluice = new Sluice({ url: server.http, token: server.token })
      const outcomes = []
      for (const { call, args = {}, keep = {} } of table) {
        const known = filled(args, names)
        const outcome = await oneCall(sluice, call, known)
        for (const [name, member] of Object.entries(keep)) names[name] = String(outcome.result?.[member])
        outcomes.push(outcome)
      }
      return outcomes
    },
    async one(t, url, { call, args }) {
      return oneCall(new Sluice({ url, token: '' }), call, args)
    },
    feed(t, server, query, tell) {
      const stop = new AbortController()
      let goOn
      let gate
      const sluice = new Sluice({ url: server.http, token: server.token, fetch: async (...request) => (await gate, fetch(...request)) })
      const onAway = (problem) => {
        tell({ away: problem.message })
        gate ??= new Promise((resolve) => (goOn = resolve)) // it comes back when the test says so
      }
      const options = { signal: stop.signal, onAway }
      const read = async () => {
        for await (const { data } of sluice.feed(query, options)) {
          if ('event' in data) tell({ n: data.event.data.n, seq: data.seq })
          else if ('subscribed' in data) tell({ live: true })
        }
      }
      const over = read().catch((problem) => {
        if (problem instanceof SluiceError) tell({ error: problem.code, status: problem.status })
        return problem
      })
      t.after(async () => {
        collectGarbage() // after which the signal of fetch does nothing in Node 20
        stop.abort(new Error('the test is over'))
        const problem = await over
        assert.ok(problem instanceof SluiceError || problem.message === 'the test is over', problem)
      })
      return { goOn: () => goOn() }
    },
    async worker(t, server, secret, tell) {
      let goOn
      const gone = new Promise((resolve) => (goOn = resolve))
      const worker = new Worker(new Sluice({ url: server.http, token: server.token }), {
        secret,
        concurrency: 1,
        heartbeat: 100,
        handle: async ({ messages, notice, signal }) => {
          for (const { n } of messages) {
            if (n === 'hold') {
              tell({ held: true })
              await gone
            }
            if (n === 'keep') {
              tell({ kept: true })
              if (!signal.aborted) await once(signal, 'abort')
              tell({ lost: true })
            }
            if (n === 'bad') throw new Error('a bad message')
            tell({ n, epoch: notice.epoch })
          }
        },
        onError: (problem) => tell({ problem: String(problem) }),
      })
      const listener = createServer(worker.listener).listen(0, '127.0.0.1')
      await once(listener, 'listening')
      t.after(async () => {
        listener.closeAllConnections()
        listener.close()
        await worker.idle()
      })
      return { port: listener.address().port, goOn }
    },
  },
  Python: {
    async calls(t, server, names) {
      const outcomes = []
      const { ended } = python(t, ['calls', server.http, server.token, JSON.stringify(names)], (outcome) => outcomes.push(outcome))
      assert.equal(await ended, 0)
      return outcomes
    },
    async one(t, url, row) {
      let outcome
      const { ended } = python(t, ['one', url, '', JSON.stringify(row)], (what) => (outcome = what))
      assert.equal(await ended, 0)
      return outcome
    },
    feed(t, server, query, tell) {
      const { write } = python(t, ['feed', server.http, server.token, JSON.stringify(query)], tell)
      return { goOn: write }
    },
    async worker(t, server, secret, tell) {
      let port
      const { write } = python(t, ['worker', server.http, server.token, secret], (what) => {
        port ??= what.port
        tell(what)
      })
      await eventually('the port of the worker', () => port, 60_000)
      return { port, goOn: write }
    },
  },
}

/** Runs a program to its end, and returns what it printed. */
async function run(command, ...args) {
  const child = spawn(new URL(`node_modules/.bin/${command}`, import.meta.url).pathname, args, { cwd: import.meta.dirname, stdio: ['ignore', 'pipe', 'pipe'] })
  let out = ''
  child.stdout.on('data', (chunk) => (out += chunk))
  child.stderr.on('data', (chunk) => (out += chunk))
  const [status] = await once(child, 'close')
  return { status, out }
}

/** Writes the examples of docs/clients.md in a language as one program. */
async function examples(t, language, name, preamble) {
  const page = await readFile(new URL('../../docs/clients.md', import.meta.url), 'utf8')
  const blocks = [...page.matchAll(/^```(\w+)\n(.*?)^```/gms)].filter(([, one]) => one === language).map(([, , text]) => text)
  assert.ok(blocks.length >= 4, language)
  const file = new URL(`clients/${name}`, import.meta.url)
  await writeFile(file, preamble + blocks.join('\n'))
  t.after(() => rm(file))
}

test('the types of the clients hold, catch mistakes, and fit the documentation', long, async (t) => {
  await examples(t, 'ts', 'documented.ts', 'declare const rawBody: Uint8Array, request: { headers: Headers }, secret: string\n')
  await examples(t, 'python', 'documented.py', 'raw_body, headers, secret = b"", {"a": "b"}, ""\n')
  const checks = [['tsc', '-p', 'clients', '--typeRoots', 'node_modules/@types'], ['pyright', '-p', 'clients']]
  for (const { status, out } of await Promise.all(checks.map((check) => run(...check)))) assert.equal(status, 0, out)
})

test('the clients of both languages', long, async (t) => {
  const server = await startServer(t)
  assert.ok(table.length >= 40, `${table.length} calls`)
  const soon = new Date(Date.now() + 24 * 3600_000).toISOString().replace(/\.\d+/, '')
  for (const [language, { calls }] of Object.entries(languages)) {
    await t.test(`${language}: the calls of the table`, async (t) => {
      const names = { ns: `client-${language.toLowerCase()}`, soon }
      const outcomes = await calls(t, server, names)
      assert.equal(outcomes.length, table.length)
      for (const [i, { call, result, error, keep = {} }] of table.entries()) {
        const outcome = outcomes[i]
        const wanted = filled(error === undefined ? { result } : { error }, names)
        assert.equal(difference(wanted, outcome), undefined, `call ${i + 1}, ${call}: ${JSON.stringify(outcome)}`)
        if (error?.status > 0) assert.ok(outcome.error.request_id, call)
        for (const [name, member] of Object.entries(keep)) names[name] = String(outcome.result[member])
      }
    })
  }

  await t.test('calls are repeated if that is harmless', async (t) => {
    let requests = []
    const busy = createServer((request, response) => {
      requests.push(request.headers['idempotency-key'])
      response.writeHead(requests.length < 3 ? 503 : 200, { 'content-type': 'application/json' }).end('{}')
    }).listen(0, '127.0.0.1')
    await once(busy, 'listening')
    t.after(() => {
      busy.closeAllConnections()
      busy.close()
    })
    const event = { ns: 'default', body: { path: '/a', type: 'a.b' } }
    const cases = [
      [{ call: 'getProduct', args: {} }, 3],
      [{ call: 'publishEvents', args: event }, 1],
      [{ call: 'publishEvents', args: { ...event, idempotency_key: 'k' } }, 3],
    ]
    for (const [language, { one }] of Object.entries(languages)) {
      for (const [row, wanted] of cases) {
        requests = []
        const outcome = await one(t, `http://127.0.0.1:${busy.address().port}`, row)
        assert.deepEqual(requests, Array(wanted).fill(row.args.idempotency_key), `${language}: ${JSON.stringify(row)}`)
        if (wanted === 1) assert.equal(difference({ error: { code: 'unavailable', status: 503 } }, outcome), undefined, language)
        else assert.deepEqual(outcome, { result: {} }, language)
      }
    }
  })

  await t.test('feeds end with the refusal of the server', async (t) => {
    for (const [language, { feed }] of Object.entries(languages)) {
      const told = []
      feed(t, server, { ns: 'default', cel: '1+' }, (what) => told.push(what))
      await eventually(`${language}: a refusal`, () => told.length > 0, 60_000)
      assert.deepEqual(told, [{ error: 'invalid_request', status: 400 }], language)
    }
  })

  await t.test('feeds and workers go on when the server is killed', async (t) => {
    const publish = async (path, n) => {
      const again = async () => (await server.publish({ id: `${path}-${n}`, path, type: 'a.b', data: { n } }).catch(() => undefined))?.status === 201
      await eventually(`event ${n}`, again, 60_000)
    }
    const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
    const all = []
    for (const [language, { feed, worker }] of Object.entries(languages)) {
      const one = { language, frames: [], work: [] }
      const { port, goOn } = await worker(t, server, secret, (what) => one.work.push(what))
      Object.assign(one, { goOn, port, path: `/work/${language}` })
      await server.subscribe(one.path, '', { id: `work-${language.toLowerCase()}`, mode: 'wake', endpoint: { url: `http://127.0.0.1:${port}`, secret } })
      one.reader = feed(t, server, { ns: 'default', pattern: '/live' }, (what) => one.frames.push(what))
      all.push(one)
    }
    const each = (what, check) => Promise.all(all.map((one) => eventually(`${one.language}: ${what}`, () => check(one), 60_000)))
    await each('a feed', ({ frames }) => frames.some((frame) => frame.live))
    for (const n of upTo(20)) await publish('/live', n)
    await each('events', ({ frames }) => frames.some((frame) => frame.n === 20))
    for (const { path } of all) await publish(path, 'hold')
    await each('work', ({ work }) => work.some((what) => what.held))
    for (const { language, port } of all) { // it has as much work as it may have
      const at = Math.floor(Date.now() / 1000)
      const body = JSON.stringify({ wake_id: 'w_other', callback: server.http, epoch: 1, token: '' })
      const signature = `t=${at},sha256=${createHmac('sha256', secret).update(`${at}.${body}`).digest('hex')}`
      const { status } = await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body, headers: { 'webhook-signature': signature } })
      assert.equal(status, 503, language)
    }

    await server.end('SIGKILL')
    const started = server.start()
    for (const { goOn } of all) goOn() // the worker acknowledges while there is no server, and goes on
    await started
    await each('a lost connection', ({ frames }) => frames.some((frame) => frame.away))
    for (const n of upTo(40, 21)) await publish('/live', n)
    for (const { reader } of all) reader.goOn() // which has missed them
    for (const { path } of all) await publish(path, 'last')

    const numbers = (list) => list.filter((what) => what.n !== undefined).map((what) => what.n)
    await each('all events', ({ frames }) => numbers(frames).includes(40))
    await each('all work', ({ work }) => numbers(work).includes('last'))
    for (const { language, frames, work } of all) {
      assert.deepEqual(numbers(frames), upTo(40), `${language}: each event once and in order`)
      assert.deepEqual([...new Set(numbers(work))], ['hold', 'last'], language)
      assert.deepEqual(work.filter((what) => what.problem), [], language)
      const id = `work-${language.toLowerCase()}`
      await eventually(`${language}: everything is acknowledged`, async () => {
        const { json } = await server.call('GET', `/v1/subscriptions/${id}/consumers/%2Fwork%2F${language}`)
        return json.state === 'idle' && !json.pending
      }, 60_000)
    }

    for (const { language, port, work } of all) { // heartbeats keep the claim, and say that it is lost
      const id = `keep-${language.toLowerCase()}`
      await server.subscribe(`/keep/${language}`, '', { id, mode: 'wake', endpoint: { url: `http://127.0.0.1:${port}`, secret } })
      await publish(`/keep/${language}`, 'keep')
      await eventually(`${language}: the claim`, () => work.some((what) => what.kept), 60_000)
      const claimed = async () => (await server.call('GET', `/v1/subscriptions/${id}/consumers/%2Fkeep%2F${language}`)).json
      const first = await claimed()
      await eventually(`${language}: a heartbeat`, async () => (await claimed()).live_until > first.live_until, 60_000)
      assert.deepEqual([first.state, first.epoch, (await claimed()).epoch], ['live', 1, 1], language)
      assert.ok(!work.some((what) => what.lost), language)
      assert.equal((await server.call('DELETE', `/v1/subscriptions/${id}`)).status, 204)
      await eventually(`${language}: the loss of the claim`, () => work.some((what) => what.lost), 60_000)
      assert.deepEqual(work.filter((what) => what.problem), [], language)
    }

    for (const { language, port, work } of all) { // what is forged is refused, and what failed is not acknowledged
      const forged = await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body: '{}', headers: { 'webhook-signature': `t=${Math.floor(Date.now() / 1000)},sha256=${'0'.repeat(64)}` } })
      assert.equal(forged.status, 401, language)
      const id = `bad-${language.toLowerCase()}`
      await server.subscribe(`/bad/${language}`, '', { id, mode: 'wake', endpoint: { url: `http://127.0.0.1:${port}`, secret } })
      await publish(`/bad/${language}`, 'bad')
      await eventually(`${language}: a problem`, () => work.some((what) => what.problem?.includes('a bad message')), 60_000)
      const { json } = await server.call('GET', `/v1/subscriptions/${id}/consumers/%2Fbad%2F${language}`)
      assert.deepEqual([json.state, json.pending], ['live', true], language)
    }
  })
})
