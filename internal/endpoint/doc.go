// Package endpoint makes single delivery attempts over HTTP. It decides the content of the request
// (render.go, envelope.go), the amount of data in it (project.go), its signature (request.go), its
// credentials (tokens.go, identities.go), which URLs, headers and addresses are allowed (url.go,
// header.go, address.go), and the outcome of the response (answer.go, failure.go). The caller
// schedules attempts and acts on their outcomes.
//
// Addresses are checked twice. Check refuses addresses that are not allowed when a subscription is
// created, which gives early feedback. The dialler checks each address to which it is about to
// connect, even if the name resolved to an allowed address before. Only the second check protects the server.
//
// The way of an attempt:
//
//	Send ── request ── authorize ── exchange ─┬─ wires      http://, and https to a host that is
//	        body,      access                 │             known to speak HTTP/1.1, up to 16 KiB
//	        headers,   token                  └─ transport  HTTP/2, unknown hosts, larger requests,
//	        signature                                       own certificates
//	nothing was sent, and nothing will be     Refused
//	2xx with a complete body                  Delivered
//	410                                       Gone
//	any other status, or no response          Failed, with a FailureClass if there is no response
//
// The states of a connection of wires (decision 0049):
//
//	         connect               put             pick, and it is quiet
//	(none) ─────────► dialling ──────────► free ◄───────────────────────► in use
//	                     │                  │ free for 30 s,                │ error, cut,
//	                     ▼                  ▼ or Close                      ▼ or not reusable
//	               error to the          closed                  closed; another is opened
//	               attempt that waits                            for an attempt that waits
package endpoint
