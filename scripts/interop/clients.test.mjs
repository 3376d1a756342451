// The clients of pkg/typescript and pkg/python: the same calls with the same results, types that are checked, and feeds and
// workers that go on when the server is killed.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
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
    feed(t, server, pattern, tell) {
      const stop = new AbortController()
      const sluice = new Sluice({ url: server.http, token: server.token })
      const options = { signal: stop.signal, onAway: (problem) => tell({ away: problem.message }) }
      const read = async () => {
        for await (const { data } of sluice.feed({ ns: 'default', pattern }, options)) {
          if ('event' in data) tell({ n: data.event.data.n, seq: data.seq })
          else if ('subscribed' in data) tell({ live: true })
        }
      }
      const over = read().catch((problem) => problem)
      t.after(async () => {
        collectGarbage() // after which the signal of fetch does nothing in Node 20
        stop.abort(new Error('the test is over'))
        assert.equal((await over).message, 'the test is over')
      })
    },
    async worker(t, server, secret, tell) {
      let goOn
      const gone = new Promise((resolve) => (goOn = resolve))
      const worker = new Worker(new Sluice({ url: server.http, token: server.token }), {
        secret,
        handle: async ({ messages, notice }) => {
          for (const { n } of messages) {
            if (n === 'hold') {
              tell({ held: true })
              await gone
            }
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
    feed(t, server, pattern, tell) {
      python(t, ['feed', server.http, server.token, pattern], tell)
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

test('the types of the clients hold, and catch mistakes', long, async () => {
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

  await t.test('feeds and workers go on when the server is killed', async (t) => {
    const publish = async (path, n) => {
      const again = async () => (await server.publish({ id: `${path}-${n}`, path, type: 'a.b', data: { n } }).catch(() => undefined))?.status === 201
      await eventually(`event ${n}`, again, 60_000)
    }
    const all = []
    for (const [language, { feed, worker }] of Object.entries(languages)) {
      const one = { language, frames: [], work: [] }
      const { port, goOn } = await worker(t, server, `whsec_${Buffer.alloc(32, 7).toString('base64')}`, (what) => one.work.push(what))
      one.goOn = goOn
      one.path = `/work/${language}`
      await server.subscribe(one.path, `http://127.0.0.1:${port}`, {
        id: `work-${language.toLowerCase()}`, mode: 'wake', endpoint: { url: `http://127.0.0.1:${port}`, secret: `whsec_${Buffer.alloc(32, 7).toString('base64')}` },
      })
      feed(t, server, '/live', (what) => one.frames.push(what))
      all.push(one)
    }
    const each = (what, check) => Promise.all(all.map((one) => eventually(`${one.language}: ${what}`, () => check(one), 60_000)))
    await each('a feed', ({ frames }) => frames.some((frame) => frame.live))
    for (const n of upTo(20)) await publish('/live', n)
    for (const { path } of all) await publish(path, 'hold')
    await each('work', ({ work }) => work.some((what) => what.held))

    await server.end('SIGKILL')
    const started = server.start()
    for (const { goOn } of all) goOn() // the worker acknowledges while there is no server, and goes on
    await started
    for (const n of upTo(40, 21)) await publish('/live', n)
    for (const { path } of all) await publish(path, 'last')

    const numbers = (list) => list.filter((what) => what.n !== undefined).map((what) => what.n)
    await each('all events', ({ frames }) => numbers(frames).includes(40))
    await each('all work', ({ work }) => numbers(work).includes('last'))
    for (const { language, frames, work } of all) {
      assert.deepEqual(numbers(frames), upTo(40), `${language}: each event once and in order`)
      assert.ok(frames.some((frame) => frame.away), `${language}: the reader was told`)
      assert.deepEqual([...new Set(numbers(work))], ['hold', 'last'], language)
      assert.deepEqual(work.filter((what) => what.problem), [], language)
      const id = `work-${language.toLowerCase()}`
      await eventually(`${language}: everything is acknowledged`, async () => {
        const { json } = await server.call('GET', `/v1/subscriptions/${id}/consumers`)
        return json.consumers.length === 1 && json.consumers[0].state === 'idle' && !json.consumers[0].pending
      }, 60_000)
    }
  })
})
