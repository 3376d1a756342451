// The examples of docs/examples/verify believe what a real server sends, and nothing else.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { isGenuine, isGenuineAttempt } from '../../docs/examples/verify/verify.mjs'
import { startReceiver, startServer } from './sluice.mjs'

const examples = resolve(import.meta.dirname ?? '.', '../../docs/examples/verify')

// What a canonical form can get wrong: numbers in every layout, names whose order differs between UTF-8 and UTF-16,
// characters that are escaped and those that are not.
const data = '{"z":1.0,"a":[1e21,1e20,123456789012345680000,1e-6,1e-7,-0.0,0.1,5e-324,1.7976931348623157e308,12e3,-1.5e-10],'
  + '"\\ud83d\\ude00":"smile","\\ufb33":"dalet","\\u20ac":"<&>\\u2028\\u007f","\\r":"\\b\\t\\n\\f\\"\\\\\\/\\u0001","":null,"t":[true,false,{}]}'

const cases = [
  { name: 'standard', policy: { signature: { scheme: 'standard' } } },
  { name: 'ed25519', policy: { signature: { scheme: 'ed25519' } }, python: false },
  { name: 't-sha256', policy: { signature: { scheme: 't-sha256' } } },
  { name: 'header', policy: { signature: { scheme: 'header' } } },
  { name: 'header with a name', policy: { signature: { scheme: 'header', name: 'X-Hub' } }, header: 'X-Hub' },
  { name: 'the envelope attempt', policy: { envelope: 'attempt', signature: { scheme: 'header' } }, inner: true },
]

test('the examples verify', async (t) => {
  const server = await startServer(t)
  const { json: jwks } = await server.call('GET', '/.well-known/jwks.json')
  for (const [n, one] of cases.entries()) {
    await t.test(one.name, async (t) => {
      const receiver = await startReceiver(t)
      const { secret } = await server.subscribe(`/v/${n}`, receiver.url, { policy: one.policy })
      const { status, json } = await server.publish(`{"path":"/v/${n}","type":"a.b","data":${data}}`, { 'content-type': 'application/json' })
      assert.equal(status, 201, JSON.stringify(json))
      const [{ headers, body }] = await receiver.exactly(1)
      const request = { scheme: one.policy.signature.scheme, headers, body, header: one.header, keys: [secret], inner: one.inner }
      if (request.scheme === 'ed25519') request.keys = jwks.keys
      const other = 'whsec_' + Buffer.alloc(32, 7).toString('base64')
      const wrong = [{ ...request, body: body.replace('1', '2') }]
      if (request.scheme !== 'ed25519') wrong.push({ ...request, keys: [other] })
      if (request.scheme !== 'header' || one.inner) wrong.push({ ...request, now: Date.now() / 1000 + 301 })

      for (const check of one.python === false ? [inJavaScript] : [inJavaScript, inPython]) {
        assert.equal(await check(request), true, `${check.name}: ${body}`)
        assert.equal(await check({ ...request, keys: [...request.keys, ...request.keys] }), true, 'any of several')
        for (const forged of wrong) assert.equal(await check(forged), false, `${check.name}: ${JSON.stringify(forged)}`)
      }
    })
  }
})

async function inJavaScript({ body, inner, ...request }) {
  const outer = isGenuine({ ...request, body: Buffer.from(body) })
  return inner ? outer && isGenuineAttempt({ ...request, body }) : outer
}

async function inPython({ keys, now, header, inner, ...request }) {
  const program = `
import json, sys
sys.path.insert(0, ${JSON.stringify(examples)})
sys.dont_write_bytecode = True
import verify
r = json.load(sys.stdin)
inner, body = r.pop("inner", False), r.pop("body").encode()
ok = verify.is_genuine(body=body, **r)
print(ok and (not inner or verify.is_genuine_attempt(body, r["secrets"], r.get("now"))))
`
  const child = spawn('python3', ['-c', program], { stdio: ['pipe', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.on('data', (chunk) => (out += chunk))
  child.stdin.end(JSON.stringify({ ...request, inner, secrets: keys, ...(now && { now }), ...(header && { header }) }))
  const [status] = await once(child, 'close')
  assert.equal(status, 0, 'python3 ended with an error')
  return out.trim() === 'True'
}
