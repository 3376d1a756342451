// Verifies the requests of a server, with node:crypto alone. docs/signatures.md has the rules.
import { type JsonWebKey, createHash, createHmac, createPublicKey, timingSafeEqual, verify as isSigned } from 'node:crypto'

export type Scheme = 'standard' | 'ed25519' | 't-sha256' | 'header' | 'rfc9421'
export type RequestHeaders = Headers | Record<string, string | string[] | undefined>

export interface Verification {
  /** The scheme of the subscription; default `standard`. */
  scheme?: Scheme
  /** The secrets, `whsec_…`: two during a rotation. For `ed25519` and `rfc9421` the `keys` of `getKeys()`. */
  keys: readonly (string | JsonWebKey)[]
  /** The header of the scheme `header`, if the subscription names another than `X-Fole-Signature`. */
  header?: string
  /** The URL to which the request was sent, for the scheme `rfc9421`: that of the endpoint, whose host a proxy may hide. */
  url?: string
  /** The method, for the scheme `rfc9421`; default `POST`. */
  method?: string
  /** The time in seconds; default: now. */
  now?: number
}

/** A request is not from the server, or was sent more than five minutes ago. */
export class SignatureError extends Error {
  override readonly name = 'SignatureError'
}

const tolerance = 5 * 60 // seconds between the signing time and now

/** Throws SignatureError unless the request is genuine, and TypeError for an empty secret. The body is the raw one: JSON that was parsed and written again has other bytes. */
export function verify(body: Uint8Array | string, headers: RequestHeaders, how: Verification): void {
  const bytes = typeof body === 'string' ? Buffer.from(body) : Buffer.from(body)
  const scheme = how.scheme ?? 'standard'
  checkSecrets(how.keys, scheme)
  const signature = header(headers, scheme === 'header' ? (how.header ?? 'X-Fole-Signature') : 'webhook-signature')
  if (!schemes[scheme](bytes, signature, headers, how)) throw new SignatureError('the signature is not that of a known key')
}

/** Throws SignatureError unless the signature inside a body of the envelope `attempt` is genuine, and TypeError for an empty secret. Verify the request first. */
export function verifyAttempt(body: Uint8Array | string, { keys, now }: Pick<Verification, 'keys' | 'now'>): void {
  checkSecrets(keys)
  const { signature, ...unsigned } = JSON.parse(Buffer.from(body as Uint8Array).toString()) as { signature: unknown; timestamp: string }
  checkTime(Date.parse(unsigned.timestamp) / 1000, now)
  if (!isMAC(signature, canonical(unsigned), keys)) throw new SignatureError('the signature is not that of a known key')
}

/** Throws TypeError for an empty secret, such as that of a variable that is not set: anyone can sign with it. */
export function checkSecrets(keys: Verification['keys'], scheme?: Scheme): void {
  if (keys.some((key) => !key || (scheme === 'standard' && typeof key === 'string' && decoded(key).length === 0))) {
    throw new TypeError('a secret is empty: is its variable set?')
  }
}

const decoded = (secret: string): Buffer => Buffer.from(secret.replace(/^whsec_/, ''), 'base64')

type Check = (body: Buffer, signature: string, headers: RequestHeaders, how: Verification) => boolean

const schemes: Record<Scheme, Check> = {
  standard: (body, signature, headers, { keys, now }) => {
    const content = dated(body, headers, now)
    return each(signature, 'v1,', (given) => keys.some((key) => typeof key === 'string'
      && isEqual(hmac(decoded(key), content), given)))
  },
  ed25519: (body, signature, headers, { keys, now }) => {
    const content = dated(body, headers, now)
    return each(signature, 'v1a,', (given) => keys.some((key) => typeof key !== 'string'
      && isSigned(null, content, createPublicKey({ key, format: 'jwk' }), given)))
  },
  't-sha256': (body, signature, _headers, { keys, now }) => {
    const [, at = '', hex] = /^t=(\d+),sha256=([0-9a-f]{64})$/.exec(signature) ?? []
    checkTime(at === '' ? NaN : Number(at), now)
    return isMAC(hex, Buffer.concat([Buffer.from(`${at}.`), body]), keys)
  },
  header: (body, signature, _headers, { keys }) => isMAC(/^sha256=(.*)$/.exec(signature)?.[1], body, keys),
  rfc9421: (body, _signature, headers, how) => {
    const digest = /(?:^|[ ,])sha-256=:([A-Za-z0-9+/=]*):/.exec(header(headers, 'content-digest'))?.[1] ?? ''
    if (!isEqual(createHash('sha256').update(body).digest(), Buffer.from(digest, 'base64'))) return false
    const signatures = new Map(Array.from(header(headers, 'signature').matchAll(/([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/=]*):/g), ([, label, text]) => [label, text]))
    return Array.from(header(headers, 'signature-input').slice(0, 16_384).matchAll(messageInput)).slice(0, 16).some(([, label = '', params = '', names = '', created = '']) => {
      const base = signatureBase(names.split(' ').map((name) => name.slice(1, -1)), params, headers, how)
      const given = Buffer.from(signatures.get(label) ?? '', 'base64')
      return base !== undefined && isTimely(Number(created), how.now)
        && how.keys.some((key) => typeof key !== 'string' && isSigned(null, base, createPublicKey({ key, format: 'jwk' }), given))
    })
  },
}

// A member of Signature-Input: its label, what is signed of it, and in that the quoted components and the time.
const messageInput = /(?<![\w*.-])([a-z*][a-z0-9_.*-]*)=(\(("[@a-z0-9_-]+"(?: "[@a-z0-9_-]+")*)\);created=(\d{1,12})(?:;[a-z*][a-z0-9_.*-]*(?:=(?:-?\d+|"[^"\\]*"))?)*)/g
const mustCover = ['@method', '@authority', '@path', '@query', 'content-digest', 'content-type', 'webhook-id']

/** Returns what RFC 9421 signs; undefined if it is not enough, or not known. */
function signatureBase(names: string[], params: string, headers: RequestHeaders, { url = '', method = 'POST' }: Verification): Buffer | undefined {
  const [, host = '', path = '', query = ''] = /^https?:\/\/(?:[^/?#@]*@)?([^/?#@]+)([^?#]*)(\?[^#]*)?/i.exec(url) ?? []
  if (host === '') throw new TypeError('the scheme rfc9421 needs the URL to which the request was sent')
  const derived: Record<string, string> = {
    '@method': method, '@authority': host.toLowerCase().replace(/:(80|443)$/, ''), '@path': path || '/', '@query': query || '?',
  }
  if (new Set(names).size < names.length || mustCover.some((name) => !names.includes(name))) return undefined
  const values = names.map((name) => (name.startsWith('@') ? derived[name] : found(headers, name)?.trim()))
  if (values.includes(undefined)) return undefined
  return Buffer.from([...names.map((name, i) => `"${name}": ${values[i]}`), `"@signature-params": ${params}`].join('\n'), 'latin1')
}

/** Returns what Standard Webhooks signs, if the time is right. */
function dated(body: Buffer, headers: RequestHeaders, now: number | undefined): Buffer {
  const time = header(headers, 'webhook-timestamp')
  checkTime(/^\d+$/.test(time) ? Number(time) : NaN, now)
  return Buffer.concat([Buffer.from(`${header(headers, 'webhook-id')}.${time}.`), body])
}

function each(signature: string, version: string, check: (given: Buffer) => boolean): boolean {
  return signature.split(' ').some((one) => one.startsWith(version) && check(Buffer.from(one.slice(version.length), 'base64')))
}

function isMAC(hex: unknown, content: string | Buffer, keys: Verification['keys']): boolean {
  if (typeof hex !== 'string' || !/^[0-9a-f]{64}$/.test(hex)) return false
  return keys.some((key) => typeof key === 'string' && isEqual(hmac(key, content), Buffer.from(hex, 'hex')))
}

function isTimely(time: number, now = Date.now() / 1000): boolean {
  return Math.abs(now - time) <= tolerance
}

function checkTime(time: number, now: number | undefined): void {
  if (!isTimely(time, now)) throw new SignatureError('the time is missing, or more than five minutes from now')
}

function header(headers: RequestHeaders, name: string): string {
  return found(headers, name) ?? ''
}

function found(headers: RequestHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined
  const value = headers[name.toLowerCase()] ?? Object.entries(headers).find(([one]) => one.toLowerCase() === name.toLowerCase())?.[1]
  return Array.isArray(value) ? value.join(', ') : value
}

/** Returns the canonical form of a JSON value (RFC 8785). */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const members = value as Record<string, unknown>
  return `{${Object.keys(members).sort().map((name) => `${JSON.stringify(name)}:${canonical(members[name])}`).join(',')}}`
}

const hmac = (key: string | Buffer, content: string | Buffer): Buffer => createHmac('sha256', key).update(content).digest()
const isEqual = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b)
