// Verifies the requests of Sluice in JavaScript, with nothing but node:crypto. See ../../signatures.md for the rules.
import { createHmac, createPublicKey, timingSafeEqual, verify as verifySignature } from 'node:crypto'

const tolerance = 5 * 60 // seconds between the signing time and now

/**
 * Returns whether a request is genuine.
 *
 * scheme: standard, ed25519, t-sha256 or header, as the subscription says
 * headers: with names in lower case, as node:http has them
 * body: the raw body, a Buffer; never JSON that was parsed and written again
 * keys: the secrets ("whsec_…"), two during a rotation; for ed25519 the members of "keys" of /.well-known/jwks.json
 * header: the header of the scheme header, if the subscription names another
 */
export function isGenuine({ scheme, headers, body, keys, header = 'x-fole-signature', now = Date.now() / 1000 }) {
  const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signature = '' } = headers
  switch (scheme) {
    case 'standard': {
      const content = Buffer.concat([Buffer.from(`${id}.${time}.`), body])
      return isRecent(time, now) && signature.split(' ').some((one) => one.startsWith('v1,') && keys.some((secret) =>
        isEqual(hmac(Buffer.from(secret.replace(/^whsec_/, ''), 'base64'), content), Buffer.from(one.slice(3), 'base64'))))
    }
    case 'ed25519': {
      const content = Buffer.concat([Buffer.from(`${id}.${time}.`), body])
      return isRecent(time, now) && signature.split(' ').some((one) => one.startsWith('v1a,') && keys.some((jwk) =>
        verifySignature(null, content, createPublicKey({ key: jwk, format: 'jwk' }), Buffer.from(one.slice(4), 'base64'))))
    }
    case 't-sha256': {
      const [, at, hex] = /^t=(\d+),sha256=([0-9a-f]{64})$/.exec(signature) ?? []
      return isRecent(at, now) && keys.some((secret) =>
        isEqual(hmac(secret, Buffer.concat([Buffer.from(`${at}.`), body])), Buffer.from(hex, 'hex')))
    }
    case 'header': {
      const [, hex] = /^sha256=([0-9a-f]{64})$/.exec(headers[header.toLowerCase()]) ?? []
      return hex !== undefined && keys.some((secret) => isEqual(hmac(secret, body), Buffer.from(hex, 'hex')))
    }
  }
  throw new Error(`unknown scheme ${scheme}`)
}

/** Returns whether the signature inside a body of the envelope "attempt" is genuine. */
export function isGenuineAttempt({ body, keys, now = Date.now() / 1000 }) {
  const { signature, ...unsigned } = JSON.parse(body)
  if (!/^[0-9a-f]{64}$/.test(signature)) return false
  return isRecent(Date.parse(unsigned.timestamp) / 1000, now)
    && keys.some((secret) => isEqual(hmac(secret, canonical(unsigned)), Buffer.from(signature, 'hex')))
}

/** Returns the canonical form of a JSON value (RFC 8785): sorted names, no white space, numbers as JavaScript writes them. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(',')}}`
}

const hmac = (key, content) => createHmac('sha256', key).update(content).digest()
const isEqual = (a, b) => a.length === b.length && timingSafeEqual(a, b)
const isRecent = (time, now) => Math.abs(now - Number(time)) <= tolerance
