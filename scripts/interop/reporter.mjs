// A node:test reporter of one line a test, the error of each that failed, and a last line
// "N passed, N failed".
import { inspect } from 'node:util'

export default async function* report(source) {
  let passed = 0
  let failed = 0
  for await (const { type, data } of source) {
    const isTest = data.details?.type !== 'suite'
    if (type === 'test:pass' && isTest && data.skip === undefined) {
      passed++
      yield `ok    ${data.name} (${Math.round(data.details.duration_ms)} ms)\n`
    } else if (type === 'test:pass' && isTest) {
      yield `skip  ${data.name}: ${data.skip}\n`
    } else if (type === 'test:fail' && isTest) {
      failed++
      yield `FAIL  ${data.name}\n${inspect(data.details.error.cause ?? data.details.error)}\n`
    } else if (type === 'test:stdout' || type === 'test:stderr') {
      yield data.message
    }
  }
  yield `${passed} passed, ${failed} failed\n`
}
