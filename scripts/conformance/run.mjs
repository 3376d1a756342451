// Runs the suite and compares what fails with expected.json: a failure that is not listed there, a listed test that passes or is
// gone, and another number of tests fail the run. With arguments, such as -t NAME, only the tests that ran are compared.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const { tests, failures } = JSON.parse(readFileSync(new URL('expected.json', import.meta.url), 'utf8'))
const dir = mkdtempSync(join(tmpdir(), 'sluice-results-'))
const file = join(dir, 'results.json')
const args = process.argv.slice(2)
const run = spawnSync('npx', ['vitest', 'run', '--reporter=default', '--reporter=json', '--outputFile.json=' + file, ...args], { stdio: 'inherit' })
let results
try {
  results = JSON.parse(readFileSync(file, 'utf8'))
} catch {
  process.exit(run.status || 1) // it did not come so far
} finally {
  rmSync(dir, { recursive: true, force: true })
}

const all = new Map(results.testResults.flatMap((module) => module.assertionResults).map((t) => [t.fullName, t.status]))
const problems = results.testResults.filter((m) => m.status === 'failed' && m.assertionResults.length === 0).map((m) => `does not load: ${m.message}`)
for (const [name, status] of all) {
  if (status === 'failed' && !(name in failures)) problems.push(`fails: ${name}`)
  if (status === 'passed' && name in failures) problems.push(`passes, and is expected to fail (${failures[name]}): ${name}`)
}
if (args.length === 0) {
  for (const name of Object.keys(failures)) if (!all.has(name)) problems.push(`is gone, and is expected to fail: ${name}`)
  const ran = [...all.values()].filter((status) => status === 'passed' || status === 'failed').length
  if (ran !== tests) problems.push(`${ran} tests ran in place of ${tests}`)
}
for (const problem of problems) console.error(problem)
process.exit(problems.length > 0 ? 1 : 0)
