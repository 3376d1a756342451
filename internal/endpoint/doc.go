// Package endpoint knows how one attempt is made: what the request says (render.go,
// envelope.go), how much of the data is in it (project.go), how it is signed (request.go), which URLs, headers and addresses it may go to
// (url.go, header.go, address.go), and what the answer means (answer.go, failure.go). It does
// not know when an attempt is made or what follows from it.
//
// An address is guarded twice: Check refuses what is visibly wrong when a subscription is made,
// and the dialler refuses, on the address that it is about to connect to, whatever the name
// resolved to by then. The second is the one that protects; the first is for people.
package endpoint
