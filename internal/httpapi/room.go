package httpapi

import (
	"errors"

	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Room reports the capacity of the store.
type Room interface {
	Level() sluice.StorageLevel
	Grow() error // nil if the store may grow by data other than events; otherwise code Unavailable
}

// grows reports whether requests of a route add to the store. All others free space, revoke
// permissions, change existing data or write nothing: they are attempted even if the store is full.
// Events are refused by their log, earlier than the rest.
func grows(r route) bool {
	switch r.method + " " + r.path {
	case "POST /v1/namespaces/:ns/events",
		"PUT " + dstreams.Streams,
		"POST " + dstreams.Streams,
		"POST /v1/subscriptions",
		"PUT /v1/subscriptions/:id",
		"POST /v1/subscriptions/:id/test",
		"POST /v1/subscriptions/:id/replay",
		"POST /v1/subscriptions/:id/deliveries/:event/retry",
		"POST /v1/subscriptions/:id/dead-letters/redrive",
		"POST /v1/grants",
		"POST /v1/grants/:grant/renew",
		"PUT /v1/namespaces/:ns/watches/:id",
		"PUT /v1/namespaces/:ns/appointments/:id",
		"PUT " + dstreams.Subscription,
		"POST " + dstreams.Subscription + "/streams",
		"PUT /v1/namespaces/:ns/event-types/:type":
		return true
	}
	return false
}

func (s *Server) storageLevel() sluice.StorageLevel {
	if s.opts.Room == nil {
		return sluice.StorageAmple
	}
	return s.opts.Room.Level()
}

// hasRoom returns an error if a request of the route adds to a store that may not grow.
func (s *Server) hasRoom(r route) error {
	if s.opts.Room == nil || !grows(r) {
		return nil
	}
	return s.opts.Room.Grow()
}

// lacksRoom reports whether a request was refused because the store is full or cannot write.
func lacksRoom(err error) bool {
	e, ok := errors.AsType[*sluice.Error](err)
	return ok && e.Details["reason"] == sluice.ReasonStorage
}
