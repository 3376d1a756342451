// Package mirrorstore stores the content of mirrors: their entries, gaps and places, in one stream.
//
// The subjects of a mirror m1, in the stream of mirrors:
//
//	mirror.m1.place          how far the mirror is: the last message of every commit
//	mirror.m1.entry.<id>     an entry by its id at the source; the stream keeps the last message
//	mirror.m1.gap.<from>     a range that the source no longer had
//
// The sequence of an entry's message is its cursor: it grows with each change of the entry. The
// sequence of the place's message is the revision of the mirror, which fences two replicas that
// follow one source.
package mirrorstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	gapsShown = 100
	atOnce    = 40 // open atomic batches of this process; further ones wait
)

// Store stores the content of mirrors. Its methods may be called concurrently.
type Store struct {
	core       *natsstore.Store
	tombstones time.Duration // time to keep a tombstone; 0: forever (S3-58)
	batches    chan struct{}
}

var _ mirror.Copies = (*Store)(nil)

// New returns the store of mirrors on a connection.
func New(core *natsstore.Store, tombstones time.Duration) *Store {
	return &Store{core: core, tombstones: tombstones, batches: make(chan struct{}, atOnce)}
}

// Hold returns the place of a mirror and its entries with the keys, without their data, which may
// be hundreds of megabytes. With keys, any replica answers, which may be behind: the revision of
// the place shows that. Entries has only the keys that are stored, and is nil if no key was given;
// the zero place, with Revision 0, means that nothing is stored yet. Without keys the leader
// answers.
//
// The entries are those of the place if the place is still the current one, though they may arrive
// in several answers: the place is the last message of every step, so the answer that has it also
// has every entry that is not in an earlier answer. Otherwise Commit refuses the step, so an answer
// of a replica that is behind only costs a retry.
func (s *Store) Hold(ctx context.Context, id string, keys []string) (held mirror.Held, err error) {
	if len(keys) == 0 {
		held.Place, err = s.place(ctx, id)
		return held, err
	}
	held.Entries = make(map[string]mirror.Entry, len(keys))
	held.Place, err = s.lasts(ctx, id, keys, func(e mirror.Entry) {
		e.Change.Event.Data = nil
		held.Entries[e.Change.Key()] = e
	})
	return held, err
}

// Entries returns the entries of a mirror with the keys, with their data. Any replica answers.
func (s *Store) Entries(ctx context.Context, id string, keys []string) (map[string]mirror.Entry, error) {
	entries := make(map[string]mirror.Entry, len(keys))
	_, err := s.lasts(ctx, id, keys, func(e mirror.Entry) { entries[e.Change.Key()] = e })
	return entries, err
}

// lasts calls each for the entries of a mirror with the keys, and returns the place. Each may get
// an earlier state of an entry, and then a later one.
func (s *Store) lasts(ctx context.Context, id string, keys []string, each func(mirror.Entry)) (at mirror.Place, err error) {
	subjects := make([]string, 0, len(keys)+1)
	subjects = append(subjects, s.core.Names().MirrorPlaceSubject(id))
	for _, key := range keys {
		subjects = append(subjects, s.core.Names().MirrorEntrySubject(id, key))
	}
	err = s.core.Lasts(ctx, s.core.Names().Mirror(), subjects, func(msg *nats.Msg, seq uint64) (err error) {
		if natsstore.LastHeader(msg, natsstore.HeaderSubject) == subjects[0] {
			at, err = placeOf(msg.Data, seq)
			return err
		}
		e, err := entryOf(msg, seq)
		if err == nil {
			each(e)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("mirror %s: %w", id, err)
	}
	return at, err
}

// place returns the place of a mirror from the leader.
func (s *Store) place(ctx context.Context, id string) (mirror.Place, error) {
	msg, err := s.core.LeadersMessage(ctx, s.core.Names().Mirror(), natsstore.MessageRequest{Last: s.core.Names().MirrorPlaceSubject(id)})
	if err != nil || msg.Seq == 0 {
		return mirror.Place{}, err
	}
	return placeOf(msg.Data, msg.Seq)
}

// Incarnation returns the ID of the stored sequences of all mirrors: another one after they were
// restored from a backup, "" before that.
func (s *Store) Incarnation(ctx context.Context) (string, error) {
	return s.core.GivenIncarnation(ctx, s.core.Names().Mirror())
}

func placeOf(data []byte, seq uint64) (mirror.Place, error) {
	at := mirror.Place{Revision: seq}
	if err := json.Unmarshal(data, &at); err != nil {
		return at, fmt.Errorf("place: %w", err)
	}
	return at, nil
}

// headerData is the header with the size of the data of an entry, if the data is stored after the
// JSON of the entry.
const headerData = "Sluice-Data"

// MaxEntry returns the maximum size of the data and attributes of an entry in bytes.
func (s *Store) MaxEntry() int { return int(s.core.Conn().MaxPayload()) }

// inJSON is the size up to which the data of an entry is stored in its JSON. With more data the
// check of the syntax would be expensive, and binary data would need a third more space, text up to
// six times as much.
const inJSON = 1 << 10

// encode returns the message of an entry.
func (s *Store) encode(id string, e *mirror.Entry) *nats.Msg {
	msg := &nats.Msg{Subject: s.core.Names().MirrorEntrySubject(id, e.Change.Key()), Header: nats.Header{}}
	if content := e.Change.Event.Data; len(content) > inJSON {
		msg.Data = append(e.AppendApart(make([]byte, 0, len(content)+inJSON)), content...)
		msg.Header[headerData] = []string{strconv.Itoa(len(content))}
	} else {
		msg.Data = e.AppendJSON(nil)
	}
	if e.Tombstone() && s.tombstones > 0 {
		msg.Header.Set(jetstream.MsgTTLHeader, s.tombstones.String())
	}
	return msg
}

// parts returns the JSON of a stored entry, and its data if that is stored after the JSON.
func parts(msg *nats.Msg) (text, data []byte, err error) {
	size := 0
	if apart := natsstore.LastHeader(msg, headerData); apart != "" {
		if size, err = strconv.Atoi(apart); err != nil || size <= 0 || size > len(msg.Data) {
			return nil, nil, fmt.Errorf("entry: its data has %q of %d bytes", apart, len(msg.Data))
		}
	}
	at := len(msg.Data) - size
	return msg.Data[:at], msg.Data[at:], nil
}

func entryOf(msg *nats.Msg, seq uint64) (e mirror.Entry, err error) {
	text, data, err := parts(msg)
	if err != nil {
		return e, err
	}
	if len(data) > 0 {
		e, err = mirror.ParseApart(text, data)
	} else if err = json.Unmarshal(text, &e); err != nil {
		err = fmt.Errorf("entry: %w", err)
	}
	e.Cursor = seq
	return e, err
}

// Commit stores a step atomically, and returns the new revision of the place. Code Conflict unless
// the stored revision of the place is c.Place.Revision. Commit is safe to repeat after an error: if
// the step was stored, the repetition is a conflict. Code Unavailable while the server cannot
// write. A step with entries or gaps waits while atOnce batches are open; the wait counts towards
// its time limit.
func (s *Store) Commit(ctx context.Context, id string, c mirror.Commit) (uint64, error) {
	msgs, err := s.messages(id, c)
	if err != nil {
		return 0, err
	}
	if err := s.core.Writable(); err != nil { //nolint:contextcheck // it asks a context of the server's
		return 0, err
	}
	seq, err := s.publish(ctx, msgs, storeTime(msgs))
	switch {
	case err == nil:
		return seq, nil
	case natsstore.IsConflict(err):
		return 0, sluice.Errorf(sluice.Conflict, "mirror %s was moved concurrently", id)
	}
	return 0, fmt.Errorf("mirror %s: %w", id, natsstore.StoreError(ctx, err))
}

// storeTime returns the time limit for storing a step: the slowest supported disk stores one MiB
// per second.
func storeTime(msgs []*nats.Msg) time.Duration {
	size := 0
	for _, msg := range msgs {
		size += len(msg.Data)
	}
	return natsstore.RequestTimeout + time.Duration(size>>20)*time.Second
}

func (s *Store) publish(ctx context.Context, msgs []*nats.Msg, limit time.Duration) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if len(msgs) == 1 {
		ack, err := s.core.JetStream().PublishMsg(ctx, msgs[0])
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	}
	select {
	case s.batches <- struct{}{}:
		defer func() { <-s.batches }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return s.core.Atomic(ctx, msgs)
}

// messages returns the messages of a step. The place is the last one: a reader that reads it also
// finds the others.
func (s *Store) messages(id string, c mirror.Commit) ([]*nats.Msg, error) {
	msgs := make([]*nats.Msg, 0, len(c.Entries)+len(c.Gaps)+1)
	for i := range c.Entries {
		msgs = append(msgs, s.encode(id, &c.Entries[i]))
	}
	for _, gap := range c.Gaps {
		data, err := json.Marshal(gap)
		if err != nil {
			return nil, fmt.Errorf("gap: %w", err)
		}
		msgs = append(msgs, &nats.Msg{Subject: s.core.Names().MirrorGapSubject(id, gap.From), Data: data, Header: nats.Header{}})
	}
	data, err := json.Marshal(c.Place)
	if err != nil {
		return nil, fmt.Errorf("place: %w", err)
	}
	return append(msgs, &nats.Msg{Subject: s.core.Names().MirrorPlaceSubject(id), Data: data, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(c.Place.Revision, 10)},
	}}), nil
}

// Gaps returns the last gaps of a mirror, at most gapsShown, in ascending order. The result is
// never nil. It reads all gaps of the mirror.
func (s *Store) Gaps(ctx context.Context, id string) ([]sluice.MirrorGap, error) {
	gaps := []sluice.MirrorGap{}
	err := s.gaps(ctx, id, func(gap sluice.MirrorGap) {
		if gaps = append(gaps, gap); len(gaps) > gapsShown {
			gaps = gaps[1:]
		}
	})
	return gaps, err
}

// Skipped returns all gaps of a mirror that were accepted with a bundle, in ascending order. It
// reads all gaps of the mirror.
func (s *Store) Skipped(ctx context.Context, id string) (skipped []sluice.MirrorGap, err error) {
	err = s.gaps(ctx, id, func(gap sluice.MirrorGap) {
		if gap.Cause == sluice.GapBundle {
			skipped = append(skipped, gap)
		}
	})
	return skipped, err
}

// gaps calls each for all gaps of a mirror, in ascending order.
func (s *Store) gaps(ctx context.Context, id string, each func(sluice.MirrorGap)) error {
	return s.scan(ctx, s.core.Names().MirrorGapsSubject(id), 1, func(msg *nats.Msg, _ uint64, _ bool) (bool, error) {
		var gap sluice.MirrorGap
		if err := json.Unmarshal(msg.Data, &gap); err != nil {
			return false, fmt.Errorf("gap: %w", err)
		}
		each(gap)
		return true, nil
	})
}

// Page returns at most limit entries of a mirror after a cursor, in the order of their last change.
// At the end, Next is the last cursor that was read, or after, and More is false. Pass Next as the
// next after. Tombstones are among the entries.
func (s *Store) Page(ctx context.Context, id string, after uint64, limit int) (mirror.Page, error) {
	page := mirror.Page{Next: after}
	err := s.scan(ctx, s.core.Names().MirrorEntriesSubject(id), after+1, func(msg *nats.Msg, seq uint64, last bool) (bool, error) {
		e, err := entryOf(msg, seq)
		if err != nil {
			return false, err
		}
		page.Entries, page.Next, page.More = append(page.Entries, e), seq, !last
		return len(page.Entries) < limit, nil
	})
	return page, err
}

// Follow calls each for every entry of a mirror, then caughtUp once, then each for every change,
// until ctx ends or reading fails. The functions are called by one goroutine, one at a time. An
// entry whose tombstone expired is not reported again. A record that cannot be read ends Follow;
// the caller calls it again.
func (s *Store) Follow(ctx context.Context, id string, each func(mirror.Entry), caughtUp func()) error {
	config := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: s.core.Names().MirrorEntriesSubject(id)}
	behind := true
	err := s.core.FollowToEnd(ctx, s.core.Names().Mirror(), config, natsstore.FollowAhead, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if msg != nil && !natsstore.IsMarker(msg.Header) {
			e, err := entryOf(msg, meta.Sequence.Stream)
			if err != nil {
				return false, err
			}
			each(e)
		}
		if behind && (msg == nil || meta.NumPending == 0) {
			behind = false
			caughtUp()
		}
		return true, nil
	})
	return fmt.Errorf("follow mirror %s: %w", id, natsstore.StoreError(ctx, err))
}

// scan calls each for the messages of a subject from a sequence on, until each returns false or
// there are no more; last is true for the last stored message.
func (s *Store) scan(ctx context.Context, subject string, from uint64, each func(msg *nats.Msg, seq uint64, last bool) (more bool, err error)) error {
	config := jetstream.ConsumerConfig{FilterSubject: subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from}
	err := s.core.Scan(ctx, s.core.Names().Mirror(), config, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		return each(msg, meta.Sequence.Stream, meta.NumPending == 0)
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("read %s: %w", subject, natsstore.StoreError(ctx, err))
	}
	return nil
}

// Purge deletes the place of a mirror with a revision, and everything that was stored before it. It
// keeps messages that were stored later. It is no error if there is nothing to delete. Because of
// the revision, the messages of a mirror that was created again with the same ID stay.
func (s *Store) Purge(ctx context.Context, id string, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, natsstore.ListTimeout)
	defer cancel()
	stream, err := s.core.JetStream().Stream(ctx, s.core.Names().Mirror())
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(s.core.Names().MirrorSubjects(id)), jetstream.WithPurgeSequence(revision+1))
	}
	if err != nil {
		return fmt.Errorf("mirror %s: %w", id, natsstore.StoreError(ctx, err))
	}
	return nil
}
