// An authorization server of another project gives out tokens, which an endpoint looks up there.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'node:test'
import Provider from 'oidc-provider'
import { eventually, startReceiver, startServer } from './sluice.mjs'

/** Starts an authorization server with one client, which must authenticate itself by the method. */
async function startProvider(t, method) {
  const server = createServer((request, response) => server.emit('answer', request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${server.address().port}`
  const provider = new Provider(url, {
    clients: [{
      client_id: 'sluice+1', client_secret: 'a secret: with/odd&characters', grant_types: ['client_credentials'], redirect_uris: [], response_types: [],
      token_endpoint_auth_method: method,
    }],
    scopes: ['events.write'],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      introspection: { enabled: true },
    },
    ttl: { ClientCredentials: 600 },
  })
  let issued = 0
  provider.on('client_credentials.saved', () => issued++)
  server.on('answer', provider.callback())
  t.after(() => {
    server.closeAllConnections?.()
    server.close()
  })
  return { url, provider, issued: () => issued }
}

for (const method of ['client_secret_basic', 'client_secret_post']) {
  test(`requests have a token of ${method}`, async (t) => {
    const server = await startServer(t)
    const receiver = await startReceiver(t)
    const { url, provider, issued } = await startProvider(t, method)
    const auth = { type: 'oauth2', token_url: `${url}/token`, client_id: 'sluice+1', client_secret: 'a secret: with/odd&characters', scopes: ['events.write'] }
    const sub = await server.subscribe('/o/**', receiver.url, { endpoint: { url: receiver.url, auth } })
    assert.equal(sub.endpoint.auth.client_secret, undefined)
    for (let n = 0; n < 3; n++) await server.publish({ path: `/o/${n}`, type: 'a', data: n })
    const requests = await receiver.exactly(3)
    assert.equal(issued(), 1, 'one token for all')
    for (const { headers } of requests) {
      const [, token] = /^Bearer (\S+)$/.exec(headers.authorization)
      const found = await provider.ClientCredentials.find(token)
      assert.equal(found?.clientId, 'sluice+1')
      assert.equal(found.scope, 'events.write')
    }

    const { status } = await server.call('PATCH', `/v1/subscriptions/${sub.id}`, { endpoint: { auth: { client_secret: 'another' } } })
    assert.equal(status, 200)
    await server.publish({ path: '/o/refused', type: 'a', data: 1, id: 'refused' })
    const error = await eventually('a failed attempt', async () => {
      const { json } = await server.call('GET', `/v1/subscriptions/${sub.id}/deliveries/refused`)
      return json?.attempts?.[0]?.error
    })
    assert.match(error, /^no access token: .* responded with status 401 invalid_client/)
    assert.equal(receiver.requests.length, 3, 'nothing is sent without a token')
  })
}
