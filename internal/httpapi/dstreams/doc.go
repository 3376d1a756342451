// Package dstreams serves the Durable Streams protocol over HTTP: streams below /streams/, and the
// subscriptions of the protocol in its control requests. Its errors and rights are those of the API,
// except for control requests, whose errors have the form of the protocol.
package dstreams
