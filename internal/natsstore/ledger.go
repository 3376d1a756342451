package natsstore

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	ledgerSpan     = 500              // sequences that are read first; every further span is four times as wide
	ledgerScan     = 100_000          // sequences that are read for one page, at most
	ledgerPatience = 10 * time.Second // for the election of a leader
	ledgerSkew     = time.Minute      // by which the clocks of two writers may differ
)

// Ledger is the stream of audit entries: the changes with their authors. A message: subject
// ledger.<namespace>.<action>, Nats-Msg-Id the entry's id, data the entry in JSON. It cannot be
// changed or deleted (DenyDelete, DenyPurge).
type Ledger struct{ store *Store }

// Ledger returns the ledger.
func (s *Store) Ledger() Ledger { return Ledger{s} }

// Append stores an entry, and retries that for ten seconds. The ID of the entry prevents that it is
// stored twice. Code Unavailable if the ledger is full or missing; with the reason ReasonStorage
// and advice if the whole store is full. Append does not set e.Seq. The caller appends before it
// acts, and does not act after an error.
func (l Ledger) Append(ctx context.Context, e *sluice.LedgerEntry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerPatience)
	defer cancel()
	subject := l.store.names.LedgerSubject(e.Namespace, e.Action)
	_, err = retried(ctx, isTransient, func() (*jetstream.PubAck, error) {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		msg := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{streams.HeaderMsgID: {e.ID}}}
		return l.store.js.PublishMsg(ctx, msg, jetstream.WithExpectStream(l.store.names.Ledger()))
	})
	if err != nil {
		refused := sluice.Errorf(sluice.Unavailable, "the ledger is not writable")
		if limit := limitError(err); limit != nil && limit.Details["reason"] == sluice.ReasonStorage {
			refused = limit
		}
		return fmt.Errorf("%w: %w", refused, err)
	}
	return nil
}

// Entries returns entries, newest first, and the cursor of the next page, 0 at the end. There may
// be a next page even if this one is not full. The ledger is read backwards in spans of increasing
// width. Pass the cursor as q.Before. One call reads at most ledgerScan sequences, so that a rare
// filter costs bounded time, and the caller continues with the cursor.
func (l Ledger) Entries(ctx context.Context, q model.LedgerQuery) ([]sluice.LedgerEntry, uint64, error) {
	state, err := l.state(ctx)
	if err != nil {
		return nil, 0, err
	}
	end := state.LastSeq + 1
	if q.Before > 0 {
		end = min(end, q.Before)
	}
	stop := state.FirstSeq
	if end > ledgerScan {
		stop = max(stop, end-ledgerScan)
	}
	var found []sluice.LedgerEntry // ascending
	over := false
	for span := uint64(ledgerSpan); end > stop && len(found) <= q.Limit && !over; span *= 4 {
		begin := max(stop, end-min(end, span))
		var part []sluice.LedgerEntry
		if part, over, err = l.between(ctx, &q, begin, end); err != nil {
			return nil, 0, err
		}
		found = append(part, found...)
		end = begin
	}
	var next uint64
	switch {
	case len(found) > q.Limit:
		found = found[len(found)-q.Limit:]
		next = found[0].Seq
	case !over && end > state.FirstSeq:
		next = end
	}
	slices.Reverse(found)
	return found, next, nil
}

func (l Ledger) state(ctx context.Context) (jetstream.StreamState, error) {
	stream, err := l.store.js.Stream(ctx, l.store.names.Ledger())
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("stream %s: %w", l.store.names.Ledger(), StoreError(ctx, err))
	}
	return stream.CachedInfo().State, nil
}

// between returns the entries that match q with begin ≤ sequence < end, in ascending order, and
// whether all entries before begin are older than q.Since.
func (l Ledger) between(ctx context.Context, q *model.LedgerQuery, begin, end uint64) (found []sluice.LedgerEntry, over bool, err error) {
	err = l.store.Scan(ctx, l.store.names.Ledger(), jetstream.ConsumerConfig{
		FilterSubject: l.store.names.LedgerFilter(q.Namespace, q.Action),
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(1, begin),
	}, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if meta.Sequence.Stream >= end {
			return false, nil
		}
		var e sluice.LedgerEntry
		if err := json.Unmarshal(msg.Data, &e); err != nil { // from another writer, and it cannot be deleted
			l.store.opts.Log.ErrorContext(ctx, "ledger entry cannot be read", slog.Uint64("seq", meta.Sequence.Stream), slog.Any("error", err))
			return true, nil
		}
		e.Seq = meta.Sequence.Stream
		over = over || meta.Timestamp.Before(q.Since.Add(-ledgerSkew))
		if q.Wants(&e) {
			found = append(found, e)
		}
		return true, nil
	})
	return found, over, err
}
