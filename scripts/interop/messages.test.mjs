// A library of another project verifies HTTP message signatures (RFC 9421), with the published keys.
import assert from 'node:assert/strict'
import { createHash, createPublicKey, verify } from 'node:crypto'
import { test } from 'node:test'
import { httpbis } from 'http-message-signatures'
import { eventually, startReceiver, startServer } from './sluice.mjs'

test('message signatures are verified with the published keys, before and after a rotation', async (t) => {
  const server = await startServer(t)
  const receiver = await startReceiver(t)
  const url = `${receiver.url}/a%20b?k=v&k=w`
  await server.subscribe('/m/**', url, { policy: { envelope: 'cloudevents-binary', signature: { scheme: 'rfc9421' } } })

  const genuine = async ({ method, headers, body }, at = url) => {
    const { json: jwks } = await server.call('GET', '/.well-known/jwks.json')
    const digest = createHash('sha256').update(body).digest('base64')
    const verified = await httpbis.verifyMessage({
      requiredFields: ['@method', '@authority', '@path', '@query', 'content-digest', 'webhook-id', 'ce-type'],
      requiredParams: ['created', 'keyid'],
      maxAge: 300,
      keyLookup: async ({ keyid }) => {
        const key = jwks.keys.find(({ kid }) => kid === keyid)
        return key && { id: keyid, verify: async (data, signature) => verify(null, data, createPublicKey({ key, format: 'jwk' }), signature) }
      },
    }, { method, url: at, headers })
    return verified === true && headers['content-digest'] === `sha-256=:${digest}:`
  }

  await server.publish({ path: '/m/1', type: 'a.b', data: { n: 1 } })
  const [first] = await receiver.exactly(1)
  assert.equal(await genuine(first), true)
  assert.notEqual(await genuine({ ...first, method: 'PUT' }).catch(() => false), true)
  assert.notEqual(await genuine(first, url + '&x=1').catch(() => false), true)
  assert.notEqual(await genuine({ ...first, headers: { ...first.headers, 'ce-type': 'other' } }).catch(() => false), true)
  assert.equal(await genuine({ ...first, body: first.body + ' ' }), false)

  assert.equal((await server.call('POST', '/v1/keys/rotate', { overlap: '1h' })).status, 201)
  let second
  await eventually('both keys sign', async () => { // the server learns of the new one from its store
    const n = receiver.requests.length
    await server.publish({ path: '/m/2', type: 'a.b', data: 2 })
    await eventually('the request', () => receiver.requests.length > n)
    second = receiver.requests[n]
    return /^sig1=:.*:, sig2=:.*:$/.test(second.headers.signature)
  })
  assert.equal(await genuine(second), true)
})
