package eventlog

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Bounds of erasing. Records of erased events lie in the log before their events leave it, and may push out the oldest ones of
// others. An event with an id or a label that is longer is not recorded.
const (
	eraseStep   = 4 * MaxBatch // events
	eraseTries  = 3            // of reading, while another caller erases the same events
	maxErasedID = 16 << 10
)

// What begins the text of an HMAC, so that it is never that of a stamp or a note.
const (
	erasedMark = 0xfe
	placeMark  = 0xfd
)

// codeTooManyBatches is JetStream's when others have all batches open that a stream may have.
const codeTooManyBatches = 10210

// erasedRecord is the record of an erased event.
type erasedRecord struct {
	ID    string `json:"id"`
	Seq   uint64 `json:"seq"`             // that it had
	On    string `json:"on"`              // a pseudonym of its path
	Of    string `json:"of,omitempty"`    // the id of the event that it revised
	Label string `json:"label,omitempty"` // its own
}

// ErasePath deletes the events on a path up to a sequence. A record of each is stored first, so that those who follow the log
// learn of it (S3-57); of a system event there is none. It may be called again after an error, and then goes on; records that
// are stored twice say the same. A log that has no room for records loses the events that they are about first, and
// if it still has none, there are none.
func (l *Log) ErasePath(ctx context.Context, ns string, path sluice.Path, upTo uint64) error {
	after, kept := uint64(0), 0
	for !isSystem(path) {
		events, err := l.erasable(ctx, ns, path, after, upTo)
		if err == nil && len(events) == 0 {
			break
		}
		if err == nil {
			err = l.recordErased(ctx, ns, path, events)
		}
		if err != nil {
			return fmt.Errorf("erase %s: %w", ns, natsstore.StoreError(ctx, err))
		}
		if after, kept = events[len(events)-1].Seq, kept+len(events); kept < eraseStep {
			continue
		}
		if err := l.purgePath(ctx, ns, path, after); err != nil {
			return err
		}
		kept = 0
	}
	return l.purgePath(ctx, ns, path, upTo)
}

// erasable returns the next events on a path up to a sequence. One that is gone when it is looked at is passed over: another caller
// may erase the same path.
func (l *Log) erasable(ctx context.Context, ns string, path sluice.Path, after, upTo uint64) (events []sluice.Event, err error) {
	for range eraseTries {
		events, err = l.pathEvents(ctx, ns, path, span{after + 1, upTo}, MaxBatch)
		if code := sluice.CodeOf(err); code != sluice.NotFound && code != sluice.WindowExceeded {
			break
		}
	}
	return events, err
}

// purgePath deletes the events on a path up to a sequence.
func (l *Log) purgePath(ctx context.Context, namespace string, path sluice.Path, upTo uint64) error {
	stream, err := l.core.JetStream().Stream(ctx, l.core.Names().EventsStream(namespace))
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(l.core.Names().Subject(namespace, path)), jetstream.WithPurgeSequence(upTo+1))
	}
	if err != nil {
		return fmt.Errorf("purge %s: %w", namespace, natsstore.StoreError(ctx, err))
	}
	return nil
}

// recordErased stores the records of events of a path.
func (l *Log) recordErased(ctx context.Context, ns string, path sluice.Path, events []sluice.Event) error {
	err := l.storeErased(ctx, ns, events)
	if !isFull(err) {
		return err
	}
	if err := l.purgePath(ctx, ns, path, events[len(events)-1].Seq); err != nil {
		return err
	}
	if err = l.storeErased(ctx, ns, events); isFull(err) {
		l.core.Log().WarnContext(ctx, "events were erased from a full log without a record: namespaces that follow it are not told",
			slog.String("namespace", ns), slog.Int("events", len(events)), slog.Any("error", err))
		return nil
	}
	return err
}

// isFull reports whether a write failed because there is no room for it.
func isFull(err error) bool {
	return sluice.IsFull(err) || sluice.CodeOf(err) == sluice.QuotaExceeded && natsstore.APICode(err) != codeTooManyBatches
}

// storeErased stores the records of events in one piece. While the store does not answer, it tries again.
func (l *Log) storeErased(ctx context.Context, ns string, events []sluice.Event) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(publishPatience))
	err := backoff.Retry(func() error {
		msgs, err := l.erasedMessages(ctx, ns, events)
		if err != nil {
			return backoff.Permanent(err)
		}
		switch len(msgs) {
		case 0:
		case 1:
			limit, cancel := l.core.WhileWritable(ctx)
			defer cancel()
			_, err = l.core.JetStream().PublishMsg(limit, msgs[0])
		default:
			_, err = l.commits.commit(ctx, ns, msgs)
		}
		return l.core.Retryable(ctx, err)
	}, backoff.WithContext(wait, ctx))
	return natsstore.StoreError(ctx, err)
}

func (l *Log) erasedMessages(ctx context.Context, ns string, events []sluice.Event) ([]*nats.Msg, error) {
	msgs := make([]*nats.Msg, 0, len(events))
	for i := range events {
		if e := &events[i]; len(e.ID)+len(e.Extensions[sluice.RevisionOf])+len(e.Extensions[sluice.AttributeClassification]) > maxErasedID {
			l.core.Log().WarnContext(ctx, "an event is erased without a record: its id is too long", slog.String("namespace", ns), slog.Uint64("seq", events[i].Seq))
			continue
		}
		msg, err := l.stamps.erasedMessage(ns, &events[i])
		if err != nil {
			return nil, err
		}
		msgs = append(msgs, msg)
	}
	return msgs, nil
}

// erasedMessage returns the record of an erased event as a message.
func (st *stamps) erasedMessage(ns string, e *sluice.Event) (*nats.Msg, error) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if len(st.keys) == 0 {
		return nil, errNoStampKey
	}
	key := st.keys[0]
	data, err := json.Marshal(erasedRecord{
		ID: e.ID, Seq: e.Seq, On: placeOf(key, ns, e.Path), Of: e.Extensions[sluice.RevisionOf], Label: e.Extensions[sluice.AttributeClassification],
	})
	if err != nil {
		return nil, fmt.Errorf("record of an erased event: %w", err)
	}
	msg := nats.NewMsg(st.names.ErasedSubject(ns))
	msg.Data = data
	msg.Header.Set(streams.HeaderNote, key.id+"."+base64.RawURLEncoding.EncodeToString(erasedSum(key, st.names.BareSubject(msg.Subject), data)))
	return msg, nil
}

// erased returns the record in a message of a subject, if it is one of ours: a client that can write to the subject could else
// have everything deleted elsewhere.
func (st *stamps) erased(msg *nats.Msg, subject string) (record erasedRecord, ok bool) {
	id, encoded, _ := strings.Cut(msg.Header.Get(streams.HeaderNote), ".")
	proof, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return record, false
	}
	st.mu.RLock()
	defer st.mu.RUnlock()
	i := slices.IndexFunc(st.keys, func(k stampKey) bool { return k.id == id })
	if i < 0 || !hmac.Equal(proof, erasedSum(st.keys[i], st.names.BareSubject(subject), msg.Data)) {
		return record, false
	}
	return record, json.Unmarshal(msg.Data, &record) == nil
}

// erasedSum returns the HMAC over a record of a log.
func erasedSum(key stampKey, subject string, data []byte) []byte {
	return key.sum(appendPart([]byte{erasedMark}, subject), data)
}

// places returns the pseudonyms of paths.
func (st *stamps) places(ns string, paths []sluice.Path) map[string]bool {
	st.mu.RLock()
	defer st.mu.RUnlock()
	all := make(map[string]bool, len(paths)*len(st.keys))
	for _, key := range st.keys {
		for _, path := range paths {
			all[placeOf(key, ns, path)] = true
		}
	}
	return all
}

// placeOf returns the pseudonym of a path, which only the path and the key together explain.
func placeOf(key stampKey, ns string, path sluice.Path) string {
	sum := key.sum(appendPart(appendPart([]byte{placeMark}, ns), string(path)))
	return base64.RawURLEncoding.EncodeToString(sum[:sha256.Size/2])
}
