package delivery

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// deadLetterSource takes the place of the log in a replay of dead letters. It has the letters that
// existed when the source was opened, in the order of their events. Delivered letters are deleted,
// and letters of events that fail again are after its end. So a replay that is resumed has exactly
// the remaining letters.
type deadLetterSource struct {
	store   Letters
	replay  *sluice.Replay
	entries []letterEntry // ascending
}

type letterEntry struct {
	seq    uint64 // of the event
	event  string // its id
	letter uint64 // the letter's sequence
	path   sluice.Path
}

// readDeadLetters reads the letters that a replay has to deliver.
func readDeadLetters(ctx context.Context, store Letters, sub *sluice.Subscription, replay *sluice.Replay) (*deadLetterSource, error) {
	l := &deadLetterSource{store: store, replay: replay}
	for from := replay.From; from <= replay.To; {
		found, err := store.DeadLetters(ctx, sub, from, replay.To, replayBatch)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			break
		}
		for i := range found {
			if d := &found[i]; d.Redrivable() && replay.Wants(d.Event) {
				l.entries = append(l.entries, letterEntry{d.Seq, d.Event.ID, d.LetterSeq, d.Path})
			}
		}
		from = found[len(found)-1].LetterSeq + 1
	}
	slices.SortFunc(l.entries, func(a, b letterEntry) int { return cmp.Compare(a.seq, b.seq) })
	return l, nil
}

// ReadLane is Events.ReadLane for the events of the letters. It never reports events as expired,
// because a letter that is missing was discarded on purpose.
func (l *deadLetterSource) ReadLane(ctx context.Context, sub *sluice.Subscription, path sluice.Path, from uint64, limit int) ([]model.ReadEvent, uint64, error) {
	var events []model.ReadEvent
	at, _ := slices.BinarySearchFunc(l.entries, from, func(e letterEntry, seq uint64) int { return cmp.Compare(e.seq, seq) })
	for _, e := range l.entries[at:] {
		if len(events) == limit {
			break
		}
		if path != "" && e.path != path {
			continue
		}
		found, err := l.store.DeadLetters(ctx, sub, e.letter, e.letter, 1)
		if err != nil {
			return nil, from, err
		}
		if len(found) == 1 && found[0].Redrivable() {
			events = append(events, model.ReadEvent{Event: *found[0].Event})
		}
	}
	return events, from, nil
}

// settled returns the events of the letters that were settled, according to their progress. Their
// letters are those that were sent: a letter that is made anew comes after the replay's last one.
func (l *deadLetterSource) settled(known map[uint64]model.Progress) (seqs []uint64) {
	for _, e := range l.entries {
		if p := known[e.seq]; p.Settled && p.EventID == e.event {
			seqs = append(seqs, e.seq)
		}
	}
	return seqs
}

// delivered deletes the letter of a delivered event.
func (l *deadLetterSource) delivered(ctx context.Context, seq uint64) error {
	at, ok := slices.BinarySearchFunc(l.entries, seq, func(e letterEntry, seq uint64) int { return cmp.Compare(e.seq, seq) })
	if !ok {
		return nil
	}
	return l.store.Unbury(ctx, l.entries[at].letter)
}
