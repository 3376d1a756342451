// The clients in TypeScript and Python believe what a real server sends, and nothing else.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { SignatureError, verify, verifyAttempt } from '../../pkg/typescript/dist/webhook.js'
import { Worker } from '../../pkg/typescript/dist/worker.js'
import { startReceiver, startServer } from './sluice.mjs'

const client = resolve(import.meta.dirname ?? '.', '../../pkg/python/src')

// What a canonical form can get wrong: numbers in every layout, names whose order differs between UTF-8 and UTF-16,
// characters that are escaped and those that are not.
const data = '{"z":1.0,"a":[1e21,1e20,123456789012345680000,1e-6,1e-7,-0.0,0.1,5e-324,1.7976931348623157e308,12e3,-1.5e-10],'
  + '"\\ud83d\\ude00":"smile","\\ufb33":"dalet","\\u20ac":"<&>\\u2028\\u007f","\\r":"\\b\\t\\n\\f\\"\\\\\\/\\u0001","":null,"t":[true,false,{}]}'

/** Says whether Python has the package that verifies ed25519; CI needs it. */
async function hasCryptography() {
  const [status] = await once(spawn('python3', ['-c', 'import cryptography'], { stdio: 'ignore' }), 'close')
  assert.ok(status === 0 || !process.env.CI, 'CI needs cryptography for python3')
  return status === 0
}

const cases = [
  { name: 'standard', policy: { signature: { scheme: 'standard' } } },
  { name: 'ed25519', policy: { signature: { scheme: 'ed25519' } }, python: await hasCryptography() },
  { name: 'rfc9421', policy: { envelope: 'cloudevents-binary', signature: { scheme: 'rfc9421' } }, python: await hasCryptography() },
  { name: 't-sha256', policy: { signature: { scheme: 't-sha256' } } },
  { name: 'header', policy: { signature: { scheme: 'header' } } },
  { name: 'header with a name', policy: { signature: { scheme: 'header', name: 'X-Hub' } }, header: 'X-Hub' },
  { name: 'the envelope attempt', policy: { envelope: 'attempt', signature: { scheme: 'header' } }, inner: true },
]

test('the clients verify', async (t) => {
  const server = await startServer(t)
  const { json: jwks } = await server.call('GET', '/.well-known/jwks.json')
  for (const [n, one] of cases.entries()) {
    await t.test(one.name, async (t) => {
      const receiver = await startReceiver(t)
      const url = `${receiver.url}/a%20b?k=v&k=w`
      const { secret } = await server.subscribe(`/v/${n}`, url, { policy: one.policy })
      const { status, json } = await server.publish(`{"path":"/v/${n}","type":"a.b","data":${data}}`, { 'content-type': 'application/json' })
      assert.equal(status, 201, JSON.stringify(json))
      const [{ headers, body }] = await receiver.exactly(1)
      const request = { scheme: one.policy.signature.scheme, headers, body, ...(one.header && { header: one.header }), keys: [secret], inner: one.inner }
      const published = ['ed25519', 'rfc9421'].includes(request.scheme)
      if (published) request.keys = jwks.keys
      if (request.scheme === 'rfc9421') request.url = url
      const other = 'whsec_' + Buffer.alloc(32, 7).toString('base64')
      const wrong = [{ ...request, body: body.replace('1', '2') }]
      if (!published) wrong.push({ ...request, keys: [other] })
      if (request.scheme !== 'header' || one.inner) wrong.push({ ...request, now: Date.now() / 1000 + 301 })
      if (request.scheme === 'rfc9421') {
        wrong.push({ ...request, url: url + '1' }, { ...request, method: 'PUT' }, { ...request, headers: { ...headers, 'ce-type': 'c' } })
      }
      wrong.push({ ...request, headers: {} })

      const genuine = [request, { ...request, keys: [...request.keys, ...request.keys] }]
      const wanted = [...genuine.map(() => true), ...wrong.map(() => false)]
      for (const check of one.python === false ? [inTypeScript] : [inTypeScript, inPython]) {
        assert.deepEqual(await check([...genuine, ...wrong]), wanted, `${check.name}: ${body}`)
      }
    })
  }
})

test('the clients verify the examples of rfc9421 as pkg/webhook does', async () => {
  const { now, jwks, requests } = JSON.parse(await readFile(resolve(client, '../../webhook/testdata/rfc9421.json'), 'utf8'))
  const given = requests.map(({ name, genuine, ...request }) => ({ ...request, now, scheme: 'rfc9421', keys: jwks.keys }))
  for (const check of await hasCryptography() ? [inTypeScript, inPython] : [inTypeScript]) {
    const found = await check(given)
    assert.deepEqual(requests.map(({ name }, i) => [name, found[i]]), requests.map(({ name, genuine }) => [name, genuine]), check.name)
  }
})

test('the clients refuse an empty secret', async () => {
  const now = Date.now() / 1000
  const at = String(Math.floor(now))
  const mac = (content, encoding) => createHmac('sha256', '').update(content).digest(encoding)
  const body = `{"timestamp":"${new Date().toISOString()}","a":1}`
  const attempt = JSON.stringify({ ...JSON.parse(body), signature: mac(JSON.stringify({ a: 1, timestamp: JSON.parse(body).timestamp }), 'hex') })
  const forged = ['', 'whsec_', 'whsec_!'].map((key) => (
    { scheme: 'standard', headers: { 'webhook-id': 'a', 'webhook-timestamp': at, 'webhook-signature': `v1,${mac(`a.${at}.${body}`, 'base64')}` }, body, keys: [key] }))
  forged.push({ scheme: 't-sha256', headers: { 'webhook-signature': `t=${at},sha256=${mac(`${at}.${body}`, 'hex')}` }, body, keys: [''] })
  forged.push({ scheme: 'header', headers: { 'X-Fole-Signature': `sha256=${mac(body, 'hex')}` }, body, keys: ['a', ''] })
  forged.push({ headers: {}, body: attempt, keys: [''], only: 'attempt' }, { headers: {}, body, keys: [''], only: 'worker' })
  for (const check of [inTypeScript, inPython]) {
    assert.deepEqual(await check(forged), forged.map(() => 'setup'), check.name)
  }
})

/** Returns which requests are genuine; setup: no request can be verified with these keys. */
function inTypeScript(requests) {
  return requests.map(({ headers, body, inner, only, ...how }) => {
    try {
      if (only === 'worker') new Worker({}, { secret: how.keys, handle: () => {} })
      if (!only) verify(body, headers, how)
      if (inner || only === 'attempt') verifyAttempt(Buffer.from(body), how)
      return true
    } catch (problem) {
      if (problem instanceof TypeError && /a secret is empty/.test(problem.message)) return 'setup'
      assert.ok(problem instanceof SignatureError, problem)
      return false
    }
  })
}

async function inPython(requests) {
  const program = `
import json, sys
sys.path.insert(0, ${JSON.stringify(client)})
sys.dont_write_bytecode = True
from sluice.webhook import SignatureError, verify, verify_attempt
from sluice.worker import Worker

def genuine(headers, body, keys, inner=False, only="", **how):
    try:
        if only == "worker":
            Worker(None, keys, print)
        if not only:
            verify(body.encode(), headers, keys, **how)
        if inner or only == "attempt":
            verify_attempt(body.encode(), keys, now=how.get("now"))
    except SignatureError:
        return False
    except ValueError as problem:
        assert "a secret is empty" in str(problem), problem
        return "setup"
    return True

print(json.dumps([genuine(**request) for request in json.load(sys.stdin)]))
`
  const child = spawn('python3', ['-c', program], { stdio: ['pipe', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.on('data', (chunk) => (out += chunk))
  child.stdin.end(JSON.stringify(requests))
  const [status] = await once(child, 'close')
  assert.equal(status, 0, 'python3 ended with an error')
  return JSON.parse(out)
}
