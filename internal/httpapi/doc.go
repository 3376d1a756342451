// Package httpapi implements the HTTP interface of the server: paths, bodies, headers and status
// codes, and the OpenAPI document that describes them. A handler reads the request, makes one call
// and writes the response; errors become responses in one place. Domain decisions are made
// elsewhere.
//
// A request passes these stages, each of which can end it with an error:
//
//	observe ─► authenticate ─► fits ─► guard: the route's demand, room, Idempotency-Key ─► handler
//	   ▲                                                                                     │
//	   └──── one place turns errors into responses, and logs one line ◄──────────────────────┘
//
// All routes are in routes.go and in Routes of the sub-packages, each with its demand. The comment
// of a handler names the codes beyond those of every request: Unauthenticated; NotFound,
// CapabilityRequired or Forbidden by the demand; InvalidRequest for a parameter or body; TooLarge;
// QuotaExceeded for guessed tokens; Conflict and Unprocessable for an Idempotency-Key; and
// Unavailable while permissions have not loaded, or if the store is full or does not answer.
package httpapi
