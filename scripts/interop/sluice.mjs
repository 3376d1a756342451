// A real server, a receiver and the few calls that the tests share.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'

const here = import.meta.dirname ?? new URL('.', import.meta.url).pathname
export const binary = resolve(process.env.SLUICE_BIN ?? join(here, '../../bin/sluice'))

/** Waits until check returns something truthy, and returns that; fails after a while. */
export async function eventually(what, check, limit = 20_000) {
  for (const end = Date.now() + limit; Date.now() < end; await pause(20)) {
    const found = await check()
    if (found) return found
  }
  assert.fail(`${what}: not within ${limit} ms`)
}

/** Starts a server on free ports with an empty data directory; it ends with the test t. env is further variables. */
export async function startServer(t, env = {}) {
  const data = await mkdtemp(join(tmpdir(), 'sluice-interop-'))
  const server = new Server(data, env)
  t.after(async () => {
    await server.end('SIGTERM')
    await rm(data, { recursive: true, force: true })
  })
  await server.start()
  return server
}

/** Starts a server that works on the NATS of another one, which has the user `replica`, with its keys. */
export async function startReplica(t, first) {
  const data = await mkdtemp(join(tmpdir(), 'sluice-interop-'))
  for (const file of ['root.token', 'secrets.key']) await copyFile(join(first.data, file), join(data, file))
  const server = new Server(data, { SLUICE_NATS_USER: 'replica', SLUICE_NATS_PASSWORD: 'a-password-of-the-test' }, first.nats)
  t.after(async () => {
    await server.end('SIGTERM')
    await rm(data, { recursive: true, force: true })
  })
  await server.start()
  return server
}

class Server {
  /** external is the URL of the NATS that it works on, in place of its own. */
  constructor(data, env, external) {
    this.data = data
    this.env = env
    this.external = external
  }

  /** Starts it, on free ports the first time and then on the same. */
  async start() {
    const at = (url) => (url ? new URL(url).host : '127.0.0.1:0')
    const args = ['serve', '--dev', '--data', this.data, '--http', at(this.http), ...(this.external ? ['--nats', this.external] : ['--nats-listen', at(this.nats)])]
    const file = join(this.data, 'addresses.json')
    await rm(file, { force: true }) // of one that was killed
    const child = spawn(binary, args, { env: { ...process.env, ...this.env }, stdio: ['ignore', 'pipe', 'pipe'] })
    let log = ''
    child.stdout.on('data', (chunk) => (log += chunk))
    child.stderr.on('data', (chunk) => (log += chunk))
    this.child = child
    this.ended = once(child, 'exit')
    const addresses = await eventually('addresses.json', async () => {
      assert.equal(child.exitCode, null, `the server ended:\n${log}`)
      return readFile(file, 'utf8').then(JSON.parse).catch(() => null)
    }, 60_000)
    this.http = addresses.http
    this.nats = addresses.nats
    this.token = (await readFile(join(this.data, 'root.token'), 'utf8')).trim()
  }

  /** Ends it with a signal, of which SIGKILL leaves it no time for anything. */
  async end(signal) {
    this.child.kill(signal)
    await this.ended
  }

  /** Calls the API; body may be a string or, for JSON, anything else. Returns status, headers and JSON. */
  async call(method, path, body, headers = {}) {
    const raw = typeof body === 'string' || body === undefined
    const response = await fetch(this.http + path, {
      method,
      body: raw ? body : JSON.stringify(body),
      headers: {
        authorization: `Bearer ${this.token}`,
        ...(raw ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, json: text === '' ? undefined : JSON.parse(text) }
  }

  /** Creates a push subscription and returns it with its secret. */
  async subscribe(pattern, url, fields = {}) {
    const wish = { namespace: 'default', mode: 'push', pattern, endpoint: { url }, ...fields }
    const { status, json } = await this.call('POST', '/v1/subscriptions', wish)
    assert.equal(status, 201, JSON.stringify(json))
    assert.match(json.secret, /^whsec_/, 'the reply to a creation has the secret')
    return json
  }

  publish(body, headers) {
    return this.call('POST', '/v1/namespaces/default/events', body, headers)
  }

  /** Runs the command line client against this server and returns its output. */
  async cli(...args) {
    const env = { ...process.env, SLUICE_URL: this.http, SLUICE_TOKEN: this.token }
    const child = spawn(binary, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    let out = ''
    child.stdout.on('data', (chunk) => (out += chunk))
    child.stderr.on('data', (chunk) => (out += chunk))
    const [status] = await once(child, 'close')
    assert.equal(status, 0, `sluice ${args.join(' ')}:\n${out}`)
    return out
  }
}

/** Starts an endpoint that answers 204 and keeps what it gets, in the order in which it came. */
export async function startReceiver(t) {
  const requests = []
  const server = createServer((request, response) => {
    const chunks = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const { method, url, headers } = request
      requests.push({ method, url, headers, body: Buffer.concat(chunks).toString() })
      response.writeHead(204).end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections?.()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${server.address().port}/hook`,
    requests,
    /** Waits for n requests, and a little longer for one too many. */
    async exactly(n, limit) {
      await eventually(`${n} requests`, () => requests.length >= n, limit)
      await pause(300)
      assert.equal(requests.length, n, 'no request twice')
      return requests
    },
  }
}

/** Verifies a request with the public library and returns its body, parsed. */
export function verified(request, secret) {
  assert.equal(request.method, 'POST')
  return new Webhook(secret).verify(request.body, request.headers)
}
