package natsstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Subjects, headers and statuses of direct reads.
const (
	DirectGet      = "DIRECT.GET."
	msgGet         = "STREAM.MSG.GET."
	DirectMaxBytes = 4 << 20 // maximum size of one answer; the next request continues after it

	HeaderStatus   = "Status"
	HeaderSequence = "Nats-Sequence"
	HeaderStored   = "Nats-Time-Stamp"
	HeaderSubject  = "Nats-Subject"
	HeaderPending  = "Nats-Num-Pending"
	statusEnd      = "204"
	StatusNotFound = "404"
	statusTooMany  = "413"

	descriptionLost = "Message Not Found" // with 404 and Lasts; "No Results" otherwise
)

// ErrTooMany is the error of a read whose filter matches more subjects than JetStream returns the last messages of.
var ErrTooMany = errors.New("too many subjects match")

// DirectRequest requests messages of a stream without a consumer: from a sequence or a time on,
// those of one subject, which may have wildcards.
type DirectRequest struct {
	Seq       uint64     `json:"seq,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
	Subject   string     `json:"next_by_subj,omitempty"`
	Batch     int        `json:"batch"`
	MaxBytes  int        `json:"max_bytes"`
	Lasts     []string   `json:"multi_last,omitempty"` // instead: the last message of each subject that one of these matches
	UpTo      uint64     `json:"up_to_seq,omitempty"`  // as if the log ended there
}

// Body returns the request as NATS reads it. It writes <, > and & as they are: escaped, a thousand
// subjects of them would exceed a message.
func (r *DirectRequest) Body() ([]byte, error) {
	var body bytes.Buffer
	to := json.NewEncoder(&body)
	to.SetEscapeHTML(false)
	if err := to.Encode(r); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	return body.Bytes(), nil
}

// Direct returns the stored messages in ascending order, at most req.Batch of them, and whether
// there are more. Any replica may answer. Therefore a message that was stored a moment ago may be
// missing on a cluster. Code NotFound if there is no such namespace. The same request on another
// replica may find more. To continue, set Seq to the last sequence plus 1.
func (s *Store) Direct(ctx context.Context, ns string, req DirectRequest) (msgs []*nats.Msg, more bool, err error) {
	if req.StartTime == nil {
		req.Seq = max(req.Seq, 1)
	}
	req.MaxBytes = DirectMaxBytes
	body, err := req.Body()
	if err != nil {
		return nil, false, err
	}
	answer, err := AskedFor(ctx, RequestTimeout, func(ctx context.Context) (DirectAnswer, error) {
		return s.DirectOnce(ctx, ns, body, req.Batch+1)
	})
	return answer.Msgs, answer.More, StoreError(ctx, err)
}

// Lasts calls each for the last message of each of the subjects, in the order of the stream. A
// subject without a message is left out. It needs AllowDirect on the stream. An answer that is not
// whole is an error, never a shorter result.
//
// An answer has at most DirectMaxBytes and one message; the next one continues after it. Each is of
// some replica at some moment. Therefore each may get an earlier message of a subject that changes
// meanwhile, and then a later one, or only the earlier one if the last replica is behind.
func (s *Store) Lasts(ctx context.Context, stream string, subjects []string, each func(msg *nats.Msg, seq uint64) error) error {
	req := DirectRequest{Batch: len(subjects), Lasts: subjects, MaxBytes: DirectMaxBytes}
	for more := true; more; {
		answer, err := s.someLasts(ctx, stream, req)
		if err != nil {
			return StoreError(ctx, err)
		}
		for _, msg := range answer.Msgs {
			seq, err := strconv.ParseUint(LastHeader(msg, HeaderSequence), 10, 64)
			if err != nil {
				return fmt.Errorf("read %s: sequence: %w", stream, err)
			}
			if err := each(msg, seq); err != nil {
				return fmt.Errorf("message %d: %w", seq, err)
			}
			req.Seq = seq + 1
		}
		more = answer.More
	}
	return nil
}

// someLasts returns one answer to Lasts.
func (s *Store) someLasts(ctx context.Context, stream string, req DirectRequest) (DirectAnswer, error) {
	body, err := req.Body()
	if err != nil {
		return DirectAnswer{}, err
	}
	return AskedFor(ctx, RequestTimeout, func(ctx context.Context) (DirectAnswer, error) {
		answer, err := s.directAgain(ctx, stream, body, req.Batch+1)
		if err == nil && (answer.Lost || answer.More && len(answer.Msgs) == 0) {
			err = fmt.Errorf("read %s: the answer is not whole", stream)
		}
		return answer, err
	})
}

// DirectAnswer is the answer to a direct read. If Lost is set, so is None.
type DirectAnswer struct {
	Msgs []*nats.Msg
	More bool
	None bool // no message was found; false if only no further one was
	Lost bool // with Lasts: a message that was found cannot be read, and the messages after it are missing
}

// DirectOnce sends the request until an answer arrives, of at most most messages, or ctx is done.
// NATS gives each request to one of the replicas, which may be paused: a request without any answer
// is sent again, and its timeout is longer.
func (s *Store) DirectOnce(ctx context.Context, ns string, body []byte, most int) (DirectAnswer, error) {
	answer, err := s.directAgain(ctx, s.names.EventsStream(ns), body, most)
	if errors.Is(err, nats.ErrNoResponders) {
		_, missing := s.EventsInfo(ctx, ns)
		err = cmp.Or(missing, err)
	}
	return answer, err
}

// directAgain is DirectOnce for a stream.
func (s *Store) directAgain(ctx context.Context, stream string, body []byte, most int) (DirectAnswer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return s.directTry(ctx, stream, body, most, askFirst)
}

// directTry sends the request, and sends it again if no message arrives during wait. It returns the
// first whole answer to any try: a server that needs longer than wait for each would otherwise never
// be heard. A SubscribeSync would allocate a buffer for 65,536 messages (half a megabyte), which
// took longer than the read itself.
func (s *Store) directTry(ctx context.Context, stream string, body []byte, most int, wait time.Duration) (DirectAnswer, error) {
	var answer DirectAnswer
	inbox, msgs := s.nc.NewInbox(), make(chan *nats.Msg, most)
	sub, err := s.nc.ChanSubscribe(inbox, msgs)
	if err != nil {
		return answer, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is gone, and with it the subscription
	closed := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(closed) })
	if err := s.nc.PublishRequest(s.API(DirectGet+stream), inbox, body); err != nil {
		return answer, err
	}
	silence := time.NewTimer(wait)
	defer silence.Stop()
	var later chan directEnd
	for {
		select {
		case msg := <-msgs:
			silence.Stop() // ctx bounds the rest
			if LastHeader(msg, HeaderSequence) == "" {
				err := answer.end(stream, msg)
				return answer, err
			}
			answer.Msgs = append(answer.Msgs, msg)
		case <-silence.C:
			later = make(chan directEnd, 1)
			go func() {
				answer, err := s.directTry(ctx, stream, body, most, wait+wait/2)
				later <- directEnd{answer, err}
			}()
		case end := <-later:
			return end.answer, end.err
		case <-closed:
			return answer, nats.ErrConnectionClosed
		case <-ctx.Done():
			return answer, ctx.Err()
		}
	}
}

// directEnd is the result of a try.
type directEnd struct {
	answer DirectAnswer
	err    error
}

// end completes the answer with its last message, which has a status.
func (a *DirectAnswer) end(stream string, msg *nats.Msg) error {
	switch status := msg.Header.Get(HeaderStatus); status {
	case StatusNoAnswer:
		return nats.ErrNoResponders
	case statusEnd:
		pending := LastHeader(msg, HeaderPending)
		a.More = pending != "" && pending != "0"
	case StatusNotFound:
		a.None, a.Lost = true, msg.Header.Get("Description") == descriptionLost
	case statusTooMany:
		return ErrTooMany
	default:
		return fmt.Errorf("read %s: status %q %s", stream, status, msg.Header.Get("Description"))
	}
	return nil
}

// LastHeader returns a header that the server added: the last one with the name, since a publisher
// may have set the same name. It returns "" if there is none. Header.Get returns the first one,
// which the publisher may have set.
func LastHeader(msg *nats.Msg, name string) string {
	values := msg.Header.Values(name)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
