// Package dstreams serves the Durable Streams protocol over HTTP: streams below /streams/, and the
// subscriptions of the protocol in its control requests. Rights are those of the API, and so are
// the forms of errors. Only the errors of control requests have the form of the protocol.
//
// A control request of a stream subscription names its streams relative to the part of the path
// before the control segment:
//
//	/streams/{ns}/a/b/__ds/subscriptions/s     the subscription s of the streams below /a/b
//	/streams/{ns}/__ds/subscriptions/s         the subscription s of the streams of the namespace
//
// Rooted rewrites the first form to the second and keeps "/a/b" in the context.
package dstreams
