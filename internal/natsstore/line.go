package natsstore

import (
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// Timeouts of a connection that stays open without receiving data, for example because its server
// is paused or a network drops packets: it is replaced after 4 to 6 seconds, about the time that a
// NATS cluster needs for an election. A connection that still receives messages is not replaced,
// however late an answer is. A connection that accepts no data for writeTimeout is replaced as
// well.
const (
	pingEvery    = 2 * time.Second
	pingTimeout  = 4 * time.Second
	writeTimeout = 10 * time.Second
)

// watchLine reconnects when the connection receives no data, until the store is closed. The pings
// of the client cannot distinguish such a connection from one on which the answer waits behind
// messages. Therefore their timeout has to be longer.
func (s *Store) watchLine() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
		}
		if s.nc.Status() != nats.CONNECTED {
			continue
		}
		before := s.nc.Stats().InMsgs
		if err := s.nc.FlushTimeout(pingTimeout); errors.Is(err, nats.ErrTimeout) && s.nc.Stats().InMsgs == before {
			s.opts.Log.Warn("NATS is silent: connecting again", slog.String("server", s.nc.ConnectedServerName()), slog.Duration("silent_for", pingTimeout))
			_ = s.nc.ForceReconnect() // fails only if the store is closed
		}
	}
}
