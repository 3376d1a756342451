// Package dstreams serves the Durable Streams protocol over HTTP: streams below /streams/, and the
// subscriptions of the protocol in its control requests. Rights are those of the API, and so are
// the forms of errors. Only the errors of control requests have the form of the protocol.
package dstreams
