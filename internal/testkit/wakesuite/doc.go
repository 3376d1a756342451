// Package wakesuite tests a server of webhook wake subscriptions from outside, over HTTP alone,
// with its own client and receivers. It runs against any server that has Durable Streams below one
// URL with S1's subscriptions beside them. The server must be permitted to send webhooks to
// http://127.0.0.1.
//
// Every test has its own paths, ids and receivers, and deletes its subscriptions but not its
// streams. All clocks are real. Tests that wait for those of 10, 30 and 45 seconds are skipped with
// -short; the others take a few seconds. No test requires speed: a test that one request does not
// wait for another keeps the other waiting until the test ends.
//
// The statements of S1 that cannot be tested in this time or from outside are in unseen, with the
// reason. Of these, internal/wake tests tokens that expire after an hour, retries from the eleventh
// on, and the end after three days of failure. A test checks that every statement of S1 either has
// a test here or is in unseen.
package wakesuite
