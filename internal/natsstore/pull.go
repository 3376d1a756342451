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

// How an embedded server is asked for deliveries, and for how long it may be silent until it is clear that it does not have the
// request any more.
const (
	pullExpiry    = time.Minute
	pullHeartbeat = 10 * time.Second
	pullSilence   = 2 * pullHeartbeat
)

// How a NATS elsewhere is asked. A server that was paused takes its clients with it, and for a minute and more the others do not
// notice: their deliveries to requests that came over it are lost until the ack wait is over. Requests that expire sooner than
// a silent connection is given up are gone by the time of the next one. Their end also stands for a heartbeat.
const (
	remoteExpiry  = 4 * time.Second
	remoteSilence = 7 * time.Second
)

// Subject, headers and statuses of pull requests.
const (
	pullNext        = "CONSUMER.MSG.NEXT."
	pullAgain       = 20 * time.Millisecond   // after a try that no server was there for
	headerLeft      = "Nats-Pending-Messages" // of a request that has ended: how many it did not get
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

// pace is how a consumer is asked.
type pace struct {
	most      int           // deliveries that are asked for and not taken
	expiry    time.Duration // of a request
	heartbeat time.Duration // 0: none
	silence   time.Duration // after which the request is lost
	early     int           // tries that may find no server: a consumer is told of before all of a cluster know it
}

// deliveryPace is how a subscription's consumer is asked.
func (s *Store) deliveryPace(most int) pace {
	if s.opts.Conn != nil {
		return pace{most: most, expiry: pullExpiry, heartbeat: pullHeartbeat, silence: pullSilence}
	}
	return pace{most: most, expiry: remoteExpiry, silence: remoteSilence}
}

// RequestsLast returns how long a request for deliveries may wait at the server after its client is gone; 0 for a server in this
// process, which knows its clients.
func (s *Store) RequestsLast() time.Duration {
	if s.opts.Conn != nil {
		return 0
	}
	return remoteExpiry
}

// puller keeps asking a consumer for deliveries (decision 0006). Its messages come one
// after the other; only that goroutine touches wanted.
type puller struct {
	nc      *nats.Conn
	subject string // of the requests
	inbox   string
	pace    pace
	wanted  int // deliveries that are asked for and have not come
	early   int // tries that no server was there for
	heard   bool
	silence *time.Timer

	each func(*nats.Msg)
	end  func(error) // deliveries stop; it may be called more than once
}

// PullDeliveries is pull for the deliveries of a subscription, at the pace that fits so many at most.
func (s *Store) PullDeliveries(info *jetstream.ConsumerInfo, most int, each func(*nats.Msg), end func(error)) (stop func(), err error) {
	return s.pull(info, s.deliveryPace(most), each, end)
}

// pull starts a puller. It goes on until end was called, or stop is: nothing is handed out any
// more when that returns.
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
	if err := sub.SetPendingLimits(-1, -1); err != nil { // the number asked for is bounded, and no delivery may be dropped
		p.silence.Stop()
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	closed := make(chan struct{})
	sub.SetClosedHandler(func(string) {
		end(nats.ErrConnectionClosed) // unless it was stopped and has no reader any more
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

// ask asks for as many deliveries as are missing to the most that may be under way, if that is
// at least half of them.
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
	case msg.Reply != "": // where a delivery is acknowledged
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

// endOf returns the reason for which the server ended a request.
func endOf(status, description string) error {
	if description == serverStops {
		return fmt.Errorf("%w: %w", errPullEnded, errServerStops)
	}
	return fmt.Errorf("%w: %s %s", errPullEnded, status, description)
}

// left returns how many deliveries an ended request did not get.
func left(msg *nats.Msg) int {
	n, _ := strconv.Atoi(msg.Header.Get(headerLeft)) // without one nothing is left
	return n
}
