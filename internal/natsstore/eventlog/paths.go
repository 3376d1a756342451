package eventlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// pathPage is the number of events of a path that are read with one request.
const pathPage = 256

// headroom is the part of the maximum message size of NATS that is reserved for the attributes of
// an event.
const headroom = 16 << 10

// PathCommit contains events and records that are stored on paths of a namespace in one step. In
// the log, the events come before the records. A commit of one message is stored without a batch.
type PathCommit struct {
	Events []sluice.Event
	Fence  PathFence // nothing is stored unless it is true
	Puts   []PathPut
	Note   []byte // note of the last event, for PathNotes
}

// PathFence is the condition that the record of a path has a revision; 0: there is no record.
type PathFence struct {
	Path     sluice.Path
	Revision uint64
}

// PathPut is a record that is stored if the previous record has the revision.
type PathPut struct {
	PathFence

	Data []byte
	For  time.Duration // time to keep the record, in addition to the max_age of the log; or RecordForever, RecordAsEvents
	Tidy bool          // delete the previous records
}

// Special values of PathPut.For.
const (
	RecordForever  time.Duration = -1 // until another record replaces it
	RecordAsEvents time.Duration = -2 // as long as events that are stored now: for the last record of a path
)

// PathRecord returns the record of a path and its revision; 0 if there is none. The leader answers.
// Code NotFound for the namespace. A record that has expired or was replaced is not returned.
// Revisions are sequences of the log.
func (l *Log) PathRecord(ctx context.Context, ns string, path sluice.Path) ([]byte, uint64, error) {
	msg, err := l.last(ctx, ns, l.core.Names().RecordSubject(ns, path))
	return msg.Data, msg.Seq, err
}

// PathTail returns the sequence of the last readable event on a path; 0 if there is none. The
// leader answers.
func (l *Log) PathTail(ctx context.Context, ns string, path sluice.Path) (uint64, error) {
	subject := l.core.Names().Subject(ns, path)
	msg, err := l.last(ctx, ns, subject)
	if err != nil || msg.Seq > 0 {
		return msg.Seq, err
	}
	return l.lastReadable(ctx, ns, subject)
}

// lastReadable returns the sequence of the last readable message of a subject; 0 if there is none.
// If the last message of a subject is damaged, JetStream returns no last message, but skips the
// damaged one in a search for the next message. It makes O(log n) requests for a log of n
// sequences.
func (l *Log) lastReadable(ctx context.Context, ns, subject string) (uint64, error) {
	seq, err := l.NextSeq(ctx, ns, subject, 1)
	if err != nil || seq == 0 {
		return 0, err
	}
	end, err := l.LastSeq(ctx, ns)
	for err == nil && seq < end {
		var next uint64
		middle := seq + (end-seq+1)/2
		if next, err = l.NextSeq(ctx, ns, subject, middle); next > 0 {
			seq, end = next, max(end, next)
		} else {
			end = middle - 1
		}
	}
	return seq, err
}

// MaxData returns the maximum number of bytes of the data of an event.
func (l *Log) MaxData() int { return int(l.core.Conn().MaxPayload()) - headroom }

// last returns the last message of a subject that the leader has.
func (l *Log) last(ctx context.Context, ns, subject string) (natsstore.StoredMessage, error) {
	return l.leaders(ctx, ns, natsstore.MessageRequest{Last: subject})
}

// PathEvents returns the first events on a path after a sequence and up to another, in ascending
// order. It returns none only if the leader has none, and at most pathPage. To continue, pass the
// last sequence as after.
func (l *Log) PathEvents(ctx context.Context, ns string, path sluice.Path, after, upTo uint64) ([]sluice.Event, error) {
	return l.pathEvents(ctx, ns, path, span{after + 1, upTo}, pathPage)
}

// pathEvents is PathEvents for the events in a span, at most most of them.
func (l *Log) pathEvents(ctx context.Context, ns string, path sluice.Path, part span, most int) ([]sluice.Event, error) {
	subject := l.core.Names().Subject(ns, path)
	msgs, _, err := l.core.Direct(ctx, ns, natsstore.DirectRequest{Seq: part.from, Subject: subject, Batch: most})
	if err != nil {
		return nil, err
	}
	var events []sluice.Event
	for _, msg := range msgs {
		e, err := l.stamps.directEvent(msg)
		if e.Seq == 0 {
			return nil, err
		}
		if e.Seq > part.to {
			return events, nil
		}
		events = append(events, e) // an event that cannot be decoded has its data unchanged
	}
	if len(events) > 0 {
		return events, nil
	}
	next, err := l.NextSeq(ctx, ns, subject, part.from)
	if err != nil || next == 0 || next > part.to {
		return nil, err
	}
	e, err := l.Event(ctx, ns, next)
	if e.Seq == 0 {
		return nil, err
	}
	return []sluice.Event{e}, nil
}

// PathNotes returns the notes of events of a path after a sequence and up to another, in ascending
// order, and the sequence of the last event that it read: 0 only if there are no events. It ignores
// notes that publishers have written.
func (l *Log) PathNotes(ctx context.Context, ns string, path sluice.Path, after, upTo uint64) (notes [][]byte, last uint64, err error) {
	subject := l.core.Names().Subject(ns, path)
	msgs, _, err := l.core.Direct(ctx, ns, natsstore.DirectRequest{Seq: after + 1, Subject: subject, Batch: pathPage})
	if err != nil {
		return nil, 0, err
	}
	for _, msg := range msgs {
		seq, err := strconv.ParseUint(natsstore.LastHeader(msg, natsstore.HeaderSequence), 10, 64)
		if err != nil {
			return nil, 0, fmt.Errorf("read notes of %s: sequence: %w", ns, err)
		}
		if seq > upTo {
			return notes, last, nil
		}
		if note, ok := l.stamps.note(subject, msg.Header); ok {
			notes = append(notes, note)
		}
		last = seq
	}
	if last > 0 {
		return notes, last, nil
	}
	next, err := l.leaders(ctx, ns, natsstore.MessageRequest{Seq: after + 1, Next: subject})
	if err != nil || next.Seq == 0 || next.Seq > upTo {
		return nil, 0, err
	}
	header, err := next.Header()
	if err != nil {
		return nil, 0, fmt.Errorf("read notes of %s: %w", ns, err)
	}
	if note, ok := l.stamps.note(subject, header); ok {
		notes = append(notes, note)
	}
	return notes, next.Seq, nil
}

// CommitPaths stores events and records atomically, and returns the sequence of the last event, or
// of the record if there is nothing else. It retries while the store does not answer; IDs prevent
// that messages are stored twice. Codes: Conflict if a revision is not the stored one; those of
// Publish. The order on each path is that of c.Events. If ctx ends, it is unknown whether they were
// stored. After a commit of several records without an event, the sequence means nothing.
func (l *Log) CommitPaths(ctx context.Context, ns string, c PathCommit) (uint64, error) {
	for i := range c.Events {
		if err := checkEvent(&c.Events[i]); err != nil {
			return 0, err
		}
	}
	ttls, err := l.recordTTLs(ctx, ns, c.Puts)
	if err != nil {
		return 0, err
	}
	token := rand.Text()
	var last uint64
	err = l.retry(ctx, ns, func() error {
		msgs, err := l.commitMessages(ns, c, ttls, token)
		if err == nil {
			last, err = l.commitOnce(ctx, ns, msgs, len(c.Events))
		}
		return err
	})
	switch {
	case natsstore.IsConflict(err):
		return 0, fmt.Errorf("%w: %w", sluice.Errorf(sluice.Conflict, "the stream was changed concurrently"), err)
	case err != nil:
		return 0, fmt.Errorf("commit to %s: %w", ns, natsstore.StoreError(ctx, err))
	}
	l.tidyRecords(ctx, ns, c.Puts)
	return last, nil
}

// commitMessages returns the messages of a commit, the events before the records: a reader that
// reads the record also finds the events that were stored with it. Each message has an ID, so that
// it is stored only once.
func (l *Log) commitMessages(ns string, c PathCommit, ttls []string, token string) ([]*nats.Msg, error) {
	msgs := make([]*nats.Msg, 0, len(c.Events)+len(c.Puts))
	for i := range c.Events {
		msg := message(l.core.Names(), ns, &c.Events[i])
		if err := l.stamps.sealEvent(msg, &c.Events[i]); err != nil {
			return nil, err
		}
		msgs = append(msgs, msg)
	}
	if len(c.Note) > 0 && len(msgs) > 0 {
		if err := l.stamps.addNote(msgs[len(msgs)-1], c.Note); err != nil {
			return nil, err
		}
	}
	fenced := false
	for i, put := range c.Puts {
		fenced = fenced || put.Path == c.Fence.Path
		msg := &nats.Msg{Subject: l.core.Names().RecordSubject(ns, put.Path), Data: put.Data, Header: nats.Header{
			streams.HeaderMsgID:                 {token + strconv.Itoa(i)},
			jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(put.Revision, 10)},
		}}
		msg.Header.Set(jetstream.MsgTTLHeader, ttls[i])
		msgs = append(msgs, msg)
	}
	if !fenced && len(msgs) > 0 {
		msgs[0].Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(c.Fence.Revision, 10))
		msgs[0].Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, l.core.Names().RecordSubject(ns, c.Fence.Path))
	}
	return msgs, nil
}

// commitOnce sends the messages, of which the first events are events, and returns the sequence of
// the last event.
func (l *Log) commitOnce(ctx context.Context, ns string, msgs []*nats.Msg, events int) (uint64, error) {
	if len(msgs) == 1 {
		limit, cancel := l.core.WhileWritable(ctx)
		defer cancel()
		ack, err := l.core.JetStream().PublishMsg(limit, msgs[0])
		if err != nil {
			return 0, l.tooLarge(err, msgs[0])
		}
		return ack.Sequence, nil
	}
	last, err := l.atomic(ctx, ns, msgs)
	if natsstore.APICode(err) == codeBatchDuplicate { // an earlier try without a response has stored them
		if events == 0 {
			return 0, nil
		}
		return l.lookUp(ctx, ns, unescape(msgs[events-1].Header.Get(streams.HeaderMsgID)))
	}
	for range len(msgs) - events { // the records are after the events
		last--
	}
	return last, l.tooLarge(err, msgs...)
}

// neverExpires is the Nats-TTL of a message that is kept longer than the retention of the log.
const neverExpires = "never"

// recordTTLs returns the Nats-TTL of each record. A record must not expire before the events of its
// path: without the record they would be a stream again.
func (l *Log) recordTTLs(ctx context.Context, ns string, puts []PathPut) ([]string, error) {
	ttls := make([]string, len(puts))
	for i, put := range puts {
		ttls[i] = neverExpires
		if put.For < 0 {
			continue
		}
		info, err := l.core.EventsInfo(ctx, ns)
		if err != nil {
			return nil, err
		}
		if age := info.Config.MaxAge; age > 0 {
			ttls[i] = strconv.FormatInt(int64((put.For+age)/time.Second)+2, 10)
		}
	}
	return ttls, nil
}

// tidyRecords deletes the replaced records of paths for which that is requested. If that fails,
// they are deleted later.
func (l *Log) tidyRecords(ctx context.Context, ns string, puts []PathPut) {
	for _, put := range puts {
		if !put.Tidy && put.For != RecordAsEvents {
			continue
		}
		err := l.purgeRecords(ctx, ns, put.Path, put.Revision)
		if err == nil && put.For == RecordAsEvents {
			err = l.letGo(ctx, ns, put)
		}
		if err != nil && ctx.Err() == nil {
			l.core.Log().WarnContext(ctx, "old records of a stream not removed", slog.String("namespace", ns), slog.Any("error", err))
		}
	}
}

// letGo replaces the last record of a path by one that expires like an event. It must be called
// after the earlier records were deleted: these never expire, and one of them would become the last
// record.
func (l *Log) letGo(ctx context.Context, ns string, put PathPut) error {
	last, err := l.last(ctx, ns, l.core.Names().RecordSubject(ns, put.Path))
	if err != nil || !bytes.Equal(last.Data, put.Data) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, natsstore.RequestTimeout)
	defer cancel()
	msg := &nats.Msg{Subject: l.core.Names().RecordSubject(ns, put.Path), Data: put.Data, Header: nats.Header{}}
	_, err = l.core.JetStream().PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(last.Seq))
	if natsstore.IsConflict(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.purgeRecords(ctx, ns, put.Path, last.Seq)
}

// purgeRecords deletes the records of a path up to a revision.
func (l *Log) purgeRecords(ctx context.Context, ns string, path sluice.Path, upTo uint64) error {
	if upTo == 0 {
		return nil
	}
	stream, err := l.core.JetStream().Stream(ctx, l.core.Names().EventsStream(ns))
	if err != nil {
		return fmt.Errorf("purge records: %w", err)
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject(l.core.Names().RecordSubject(ns, path)), jetstream.WithPurgeSequence(upTo+1))
}
