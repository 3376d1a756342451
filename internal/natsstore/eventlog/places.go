package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/streams"
)

// leadersAnchor returns the place and the subject of the message at a sequence; if that is gone, of the next one; if
// there is none, of the last one; zero if the log is empty. JetStream does not find the last one by itself where the
// end of a log was deleted.
func (l *Log) leadersAnchor(ctx context.Context, ns string, seq uint64) (messagePlace, error) {
	place, err := l.leadersPlace(ctx, ns, seq)
	for low, step := seq, uint64(1); err == nil && place.Seq == 0 && low > 0; step *= 2 {
		low -= min(step, low)
		place, err = l.leadersPlace(ctx, ns, low)
	}
	for end := seq; err == nil && place.Seq > 0 && place.Seq+1 < end; {
		middle := place.Seq + 1 + (end-place.Seq-1)/2
		var later messagePlace
		if later, err = l.leadersPlace(ctx, ns, middle); later.Seq > 0 {
			place = later
		} else {
			end = middle
		}
	}
	return place, err
}

// leadersPlace returns the place and the subject of the first message from a sequence on, zero if there is none.
func (l *Log) leadersPlace(ctx context.Context, ns string, from uint64) (place messagePlace, err error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message messagePlace        `json:"message"`
	}
	body, err := json.Marshal(map[string]any{"seq": max(from, 1), "next_by_subj": ">"})
	if err != nil {
		return place, fmt.Errorf("read request: %w", err)
	}
	resp, err := natsstore.Asked(ctx, func(ctx context.Context) (*nats.Msg, error) {
		return l.core.Conn().RequestWithContext(ctx, natsstore.MsgGetSubject+streams.EventsStream(ns), body)
	})
	if err != nil {
		return place, err
	}
	if err := json.Unmarshal(resp.Data, &answer); err != nil {
		return place, fmt.Errorf("read %s: %w", ns, err)
	}
	switch {
	case answer.Error == nil, answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return answer.Message, nil
	case answer.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return place, natsstore.NamespaceMissing(ns)
	}
	return place, answer.Error
}

// messagePlace is where a message lies.
type messagePlace struct {
	Seq     uint64 `json:"seq"`
	Subject string `json:"subject"`
}

// seqOf returns the sequence in an answer to a direct get, 0 if there is none.
func seqOf(msg *nats.Msg) uint64 {
	seq, err := strconv.ParseUint(natsstore.LastHeader(msg, natsstore.HeaderSequence), 10, 64)
	if err != nil {
		return 0
	}
	return seq
}

// subjects returns the subjects of a namespace's log that match a filter, and how many messages they have.
func (l *Log) subjects(ctx context.Context, ns, filter string) (map[string]uint64, error) {
	info, err := natsstore.AskedFor(ctx, natsstore.RequestTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		handle, err := l.core.JetStream().Stream(ctx, streams.EventsStream(ns))
		if err != nil {
			return nil, err
		}
		return handle.Info(ctx, jetstream.WithSubjectFilter(filter))
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, natsstore.NamespaceMissing(ns)
	}
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}
