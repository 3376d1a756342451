// The examples of docs/examples/feed, compiled, in a thread of Node and in pages of Chromium.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { chromium } from 'playwright-core'
import { eventually } from './sluice.mjs'

const here = import.meta.dirname ?? new URL('.', import.meta.url).pathname
const examples = resolve(here, '../../docs/examples/feed')
const limit = 60_000

/** Compiles the examples, as strictly as they say, and returns where they are. */
export async function compile(t) {
  const out = await mkdtemp(join(tmpdir(), 'sluice-feed-'))
  t.after(() => rm(out, { recursive: true, force: true }))
  const tsc = join(here, 'node_modules/.bin/tsc')
  await promisify(execFile)(tsc, ['-p', examples, '--outDir', out], { timeout: limit }).catch((e) => assert.fail(e.stdout + e.stderr))
  await writeFile(join(out, 'package.json'), '{"type":"module"}')
  await copyFile(join(here, 'feedreader.mjs'), join(out, 'reader.js'))
  return out
}

/** Returns the program that is Chromium, if there is one. CI has to have one. */
export function findChromium() {
  const names = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome']
  const all = names.flatMap((name) => (process.env.PATH ?? '').split(delimiter).map((dir) => join(dir, name)))
  const found = [process.env.SLUICE_CHROMIUM ?? [], all].flat().find(isProgram)
  assert.ok(found || !process.env.CI, `CI needs one of ${names.join(', ')}`)
  return found
}

function isProgram(name) {
  try {
    accessSync(name, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** What a reader was told: shown is {seq, n, path, coalesced} of events, told everything in its order. */
class Told {
  told = []

  take(what) {
    this.told.push(what)
  }

  get shown() {
    return this.told.filter((w) => w.kind === 'event')
  }

  of(kind) {
    return this.told.filter((w) => w.kind === kind)
  }

  numbers() {
    return this.shown.map((w) => w.n)
  }

  /** Waits until it has a connection, made after so many others. */
  live(others = 0) {
    return eventually(`${this.name}: a connection`, () => this.of('live').length > others, limit)
  }

  /** Waits until it has lost a connection. */
  away() {
    return eventually(`${this.name}: no connection`, () => this.of('away').length > 0, limit)
  }

  /** Waits until it was told why it ends. */
  async ended() {
    await eventually(`${this.name}: the end`, () => this.of('end').length > 0, limit)
    return this.of('end')[0].why
  }

  /** Waits for the event with a number. */
  untilShown(n) {
    return eventually(`${this.name}: event ${n}`, () => this.shown.some((w) => w.n === n), limit)
  }

  /** Waits for so many events, and no more. */
  async events(count) {
    await eventually(`${this.name}: ${count} events`, () => this.shown.length >= count, limit).catch((e) => {
      assert.fail(`${e.message}: ${JSON.stringify(this.told.slice(-20))}`)
    })
    assert.equal(this.shown.length, count, this.name)
  }
}

/** Returns what opens readers under Node: open(how, wish), where how is events or socket and wish {server, token, ttl, query, since}. */
export function node(t, dir) {
  return (how, wish) => {
    const reader = new Told()
    reader.name = `Node, ${how}`
    const gate = new Int32Array(new SharedArrayBuffer(4))
    const worker = new Worker(join(here, 'feedworker.mjs'), { workerData: { dir, how, wish, gate } })
    worker.on('message', (what) => reader.take(what))
    worker.on('error', (e) => reader.take({ kind: 'end', why: { code: 'error', message: String(e) } }))
    t.after(() => worker.terminate())
    /** Has it take nothing until the function that is returned is called. */
    reader.hold = async () => {
      worker.postMessage('hold')
      await eventually('it holds', () => Atomics.load(gate, 0) === 1)
      return () => {
        Atomics.store(gate, 0, 0)
        Atomics.notify(gate, 0)
      }
    }
    return reader
  }
}

const page = `<!doctype html><title>feed</title><script type="module">
import { read } from '/reader.js'
window.read = (how, wish) => read(how, wish, (what) => window.told(what))
window.ready = true
</script>`

/** Starts Chromium, and returns what opens readers in it, each in a page, whose origin is not the server's. */
export async function browser(t, dir) {
  const held = new Map() // readers that are, by name: what is called with how to let them go
  const site = createServer(async (request, response) => {
    const name = request.url.slice(1)
    if (held.has(name)) return held.get(name)(() => response.end())
    if (name === '') response.setHeader('content-type', 'text/html').end(page)
    else if (/^\w+\.js$/.test(name)) response.setHeader('content-type', 'text/javascript').end(await readFile(join(dir, name)))
    else response.writeHead(404).end()
  })
  site.listen(0, '127.0.0.1')
  await once(site, 'listening')
  t.after(() => {
    site.closeAllConnections()
    site.close()
  })
  const running = await chromium.launch({ executablePath: findChromium(), args: ['--no-sandbox'], timeout: limit })
  t.after(() => running.close())
  return async (how, wish) => {
    const reader = new Told()
    reader.name = `Chromium, ${how}`
    const tab = await running.newPage()
    tab.setDefaultTimeout(limit)
    tab.on('pageerror', (e) => reader.take({ kind: 'end', why: { code: 'error', message: String(e) } }))
    await tab.exposeFunction('told', (what) => reader.take(what))
    await tab.goto(`http://localhost:${site.address().port}/`)
    await tab.waitForFunction('window.ready')
    await tab.evaluate(([how, wish]) => { window.read(how, wish) }, [how, wish])
    reader.hold = async () => {
      const name = `hold-${how}`
      const holds = new Promise((resolve) => held.set(name, resolve))
      const released = tab.evaluate((name) => { // a page that waits for an answer in this way does nothing else
        const request = new XMLHttpRequest()
        request.open('GET', name, false)
        request.send()
      }, name)
      const release = await holds
      return async () => {
        release()
        await released
      }
    }
    return reader
  }
}
