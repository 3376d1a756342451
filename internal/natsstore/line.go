package natsstore

import (
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// How soon a connection is given up that stays open and is silent, as when its server is paused or a network drops packets: 4 to
// 6 seconds, about as long as a NATS cluster takes for an election. A connection over which messages still come is not silent,
// however late it answers. One that takes nothing for writeTimeout is given up as well.
const (
	pingEvery    = 2 * time.Second
	pingTimeout  = 4 * time.Second
	writeTimeout = 10 * time.Second
)

// watchLine reconnects when the connection is silent, until the store is closed. The client's own pings do not tell a silent
// connection from one on which the answer waits behind messages, and have to be more patient.
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
