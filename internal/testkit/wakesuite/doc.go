// Package wakesuite tests a server of webhook wake subscriptions from outside: over HTTP alone, with
// a client and receivers of its own, so that it runs against any server that has Durable Streams
// below one address and S1's subscriptions beside them. The server has to be allowed to send
// webhooks to http://127.0.0.1.
//
// Every test has paths, ids and receivers of its own and deletes its subscriptions, but not its
// streams. All clocks are real: tests that wait for those of ten, thirty and 45 seconds are left out
// with -short, the others take a few seconds. Nothing has to be fast; if one request must not wait
// for another, the other is still waiting when the test ends.
//
// Statements that cannot be tested in this time or from this side are in unseen, with the reason:
// tokens that expire after an hour, retries from the eleventh on and the end after three days of
// failure are tested in internal/wake. A test checks that every statement of S1 either has a test
// here or is there.
package wakesuite
