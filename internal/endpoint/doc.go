// Package endpoint makes single delivery attempts: the content of the request (render.go,
// envelope.go), the amount of data in it (project.go), its signature (request.go), its credentials
// (tokens.go, identities.go), the allowed URLs, headers and addresses (url.go, header.go,
// address.go), and the meaning of the response (answer.go, failure.go). Scheduling attempts and
// acting on their results is left to the caller.
//
// Addresses are checked twice: Check refuses visibly invalid ones when a subscription is created,
// and the dialler checks the address to which it is about to connect, regardless of earlier
// resolutions of the name. The second check is the one that protects; the first gives early
// feedback.
package endpoint
