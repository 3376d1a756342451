// Package endpoint makes single delivery attempts over HTTP. It decides the content of the request
// (render.go, envelope.go), the amount of data in it (project.go), its signature (request.go), its
// credentials (tokens.go, identities.go), which URLs, headers and addresses are allowed (url.go,
// header.go, address.go), and the outcome of the response (answer.go, failure.go). The caller
// schedules attempts and acts on their outcomes.
//
// Addresses are checked twice. Check refuses addresses that are not allowed when a subscription is
// created, which gives early feedback. The dialler checks each address to which it is about to
// connect, even if the name resolved to an allowed address before. Only the second check protects the server.
package endpoint
