package natsstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Timeouts of requests for deliveries to an embedded server, and the time without a message after
// which the server has certainly dropped the request.
const (
	pullExpiry    = time.Minute
	pullHeartbeat = 10 * time.Second
	pullSilence   = 2 * pullHeartbeat
)

// The same for an external NATS. If a server is paused, its clients are disconnected, and the other
// servers do not notice that for a minute or more: their deliveries to requests that came over the
// paused server are lost until the ack wait is over. Therefore requests expire before a silent
// connection is replaced: they are gone before the next connection. Their end also replaces a
// heartbeat.
const (
	remoteExpiry  = 4 * time.Second
	remoteSilence = 7 * time.Second
)

// Subject, headers and statuses of pull requests.
const (
	pullNext        = "CONSUMER.MSG.NEXT."
	pullAgain       = 20 * time.Millisecond   // pause after a try that no server received
	headerLeft      = "Nats-Pending-Messages" // of a request that has ended: the number of missing deliveries
	statusHeartbeat = "100"
	StatusNoAnswer  = "503"
	statusExpired   = "408"
	serverStops     = "Server Shutdown"
)

var (
	errPullEnded   = errors.New("the server ended the request for deliveries")
	errServerStops = errors.New("the NATS server stops")
	errPullSilent  = errors.New("the server has dropped the request for deliveries")
)

// pace has the limits of the requests to a consumer.
type pace struct {
	most      int           // deliveries that are requested and not received, at most
	expiry    time.Duration // after which a request expires
	heartbeat time.Duration // 0: none
	silence   time.Duration // time without a message after which the request counts as lost
	early     int           // tries that may find no server: the creation of a consumer is confirmed before all servers of a cluster know it
}

// deliveryPace returns the limits of the requests to the consumer of a subscription.
func (s *Store) deliveryPace(most int) pace {
	if s.opts.Conn != nil {
		return pace{most: most, expiry: pullExpiry, heartbeat: pullHeartbeat, silence: pullSilence}
	}
	return pace{most: most, expiry: remoteExpiry, silence: remoteSilence}
}

// RequestsLast returns how long a request for deliveries may wait at the server after its client
// has disconnected; 0 for a server in this process, which knows its clients.
func (s *Store) RequestsLast() time.Duration {
	if s.opts.Conn != nil {
		return 0
	}
	return remoteExpiry
}

// puller keeps requesting deliveries of a consumer (decision 0006). One goroutine receives its
// messages and accesses wanted. A request and its end, with most = 100:
//
//	ask: Batch 100 ─► 50 deliveries, 50 still wanted ─► ask: Batch 50 ─► …
//	                  408 with Nats-Pending-Messages: so many less are wanted; ask again
//	                  503: no server has the consumer; early tries are repeated, later ones end
//	                  the puller
//	                  nothing for silence: the server has dropped the request; end(errPullSilent)
type puller struct {
	nc      *nats.Conn
	subject string // to which the requests are sent
	inbox   string
	pace    pace
	wanted  int // deliveries that are requested and have not arrived
	early   int // tries that no server received
	heard   bool
	silence *time.Timer

	each func(*nats.Msg)
	end  func(error) // called when deliveries stop; may be called more than once
}

// PullDeliveries is pull for the deliveries of a subscription, with at most most of them requested.
// One goroutine calls each, one call at a time. each may block: the silence is not measured
// meanwhile, and further deliveries wait. each must not call stop, which waits for it. The caller
// must call stop, also after end.
func (s *Store) PullDeliveries(info *jetstream.ConsumerInfo, most int, each func(*nats.Msg), end func(error)) (stop func(), err error) {
	return s.pull(info, s.deliveryPace(most), each, end)
}

// pull starts a puller. It runs until it calls end, or the caller calls stop: no delivery is passed
// to each after stop has returned.
func (s *Store) pull(info *jetstream.ConsumerInfo, as pace, each func(*nats.Msg), end func(error)) (stop func(), err error) {
	p := &puller{
		nc: s.nc, subject: s.API(pullNext + info.Stream + "." + info.Name), inbox: s.nc.NewInbox(), pace: as,
		each: each, end: end,
	}
	p.silence = time.AfterFunc(as.silence, func() { end(errPullSilent) })
	sub, err := s.nc.Subscribe(p.inbox, p.receive)
	if err != nil {
		p.silence.Stop()
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil { // the number of requested deliveries is limited, and none may be dropped
		p.silence.Stop()
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	closed := make(chan struct{})
	sub.SetClosedHandler(func(string) {
		end(nats.ErrConnectionClosed) // without effect after stop
		close(closed)
	})
	stop = func() {
		_ = sub.Unsubscribe() // fails only if the connection is gone, and with it the subscription
		<-closed
		p.silence.Stop()
	}
	if err := p.ask(0); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// ask requests deliveries up to pace.most, if at least half of them are missing. wanted of them are
// already requested.
func (p *puller) ask(wanted int) error {
	p.wanted = wanted
	if 2*wanted > p.pace.most {
		return nil
	}
	request, err := json.Marshal(struct {
		Batch     int           `json:"batch"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
	}{p.pace.most - wanted, p.pace.expiry, p.pace.heartbeat})
	if err != nil {
		return fmt.Errorf("request for deliveries: %w", err)
	}
	p.wanted = p.pace.most
	return p.nc.PublishRequest(p.subject, p.inbox, request)
}

func (p *puller) receive(msg *nats.Msg) {
	p.silence.Stop()
	defer p.silence.Reset(p.pace.silence)
	wanted := p.wanted
	status := msg.Header.Get(HeaderStatus)
	p.heard = p.heard || status != StatusNoAnswer
	switch {
	case msg.Reply != "": // the subject to which a delivery is acknowledged
		p.each(msg)
		wanted--
	case status == statusHeartbeat:
		return
	case status == statusExpired:
		wanted -= left(msg)
	case status == StatusNoAnswer && !p.heard && p.early < p.pace.early:
		p.early++
		<-time.After(pullAgain)
		wanted = 0
	case status == StatusNoAnswer:
		p.end(nats.ErrNoResponders)
		return
	default:
		p.end(endOf(status, msg.Header.Get("Description")))
		return
	}
	if err := p.ask(max(0, wanted)); err != nil {
		p.end(err)
	}
}

// endOf returns the error for the status with which the server ended a request.
func endOf(status, description string) error {
	if description == serverStops {
		return fmt.Errorf("%w: %w", errPullEnded, errServerStops)
	}
	return fmt.Errorf("%w: %s %s", errPullEnded, status, description)
}

// left returns the number of deliveries that are missing from an ended request.
func left(msg *nats.Msg) int {
	n, _ := strconv.Atoi(msg.Header.Get(headerLeft)) // 0 without the header
	return n
}
