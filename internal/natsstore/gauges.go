package natsstore

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/internal/model"
)

// Gauges returns the state of the connection and measures its round trip time, for at most
// askTimeout.
func (s *Store) Gauges(ctx context.Context) model.NATSGauges {
	g := model.NATSGauges{Connected: s.nc.Status() == nats.CONNECTED, Reconnects: s.nc.Stats().Reconnects}
	if !g.Connected {
		return g
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	asked := time.Now()
	if err := s.nc.FlushWithContext(ctx); err == nil {
		g.RoundTrip = time.Since(asked)
	}
	return g
}
