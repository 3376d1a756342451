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

// Limits of erasing. Records of erased events are stored in the log before the events are deleted,
// and may displace the oldest other events. No record is stored for an event with a longer ID or
// label.
const (
	eraseStep   = 4 * MaxBatch // events
	eraseTries  = 3            // of reading, if another caller erases the same events
	maxErasedID = 16 << 10
)

// First bytes of the text of an HMAC. They differ from those of a stamp or a note.
const (
	erasedMark = 0xfe
	placeMark  = 0xfd
)

// codeTooManyBatches is the error code of JetStream if the limit of open batches of a stream is
// reached.
const codeTooManyBatches = 10210

// erasedRecord is the record of an erased event.
type erasedRecord struct {
	ID    string `json:"id"`
	Seq   uint64 `json:"seq"`             // of the erased event
	On    string `json:"on"`              // pseudonym of its path
	Of    string `json:"of,omitempty"`    // ID of the event that it revised
	Label string `json:"label,omitempty"` // its label
}

// ErasePath deletes the events on a path up to a sequence. It first stores a record of each, from
// which followers of the log learn that the event was erased (S3-57), except for system events.
// After an error it may be called again and continues; a record that is stored twice has no further
// effect. If the log has no space for records, ErasePath deletes the events before it stores the
// records, and if there is still no space, it stores none.
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

// erasable returns the next events on a path up to a sequence. It retries if an event was deleted
// while it was read, because another caller may erase the same path.
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

// isFull reports whether a write failed because the store or the log is full.
func isFull(err error) bool {
	return sluice.IsFull(err) || sluice.CodeOf(err) == sluice.QuotaExceeded && natsstore.APICode(err) != codeTooManyBatches
}

// storeErased stores the records of events contiguously. It retries while the store does not
// answer.
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

// erased returns the record in a message with a subject if a server has written it: otherwise a
// client that can write to the subject could have everything deleted by the followers.
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

// placeOf returns the pseudonym of a path. It can be computed only with the path and the key.
func placeOf(key stampKey, ns string, path sluice.Path) string {
	sum := key.sum(appendPart(appendPart([]byte{placeMark}, ns), string(path)))
	return base64.RawURLEncoding.EncodeToString(sum[:sha256.Size/2])
}
