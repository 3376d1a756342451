package eventlog

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// PathBefore returns the sequence of the last event on a path up to a sequence; 0: there is none. Any replica
// answers: what is asked about was stored long ago.
func (l *Log) PathBefore(ctx context.Context, ns string, path sluice.Path, upTo uint64) (uint64, error) {
	body, err := json.Marshal(map[string]any{"multi_last": []string{streams.Subject(ns, path)}, "up_to_seq": upTo, "batch": 1})
	if err != nil {
		return 0, fmt.Errorf("read request: %w", err)
	}
	answer, err := natsstore.AskedFor(ctx, natsstore.RequestTimeout, func(ctx context.Context) (natsstore.DirectAnswer, error) {
		return l.core.DirectOnce(ctx, ns, body, 2)
	})
	if err != nil || len(answer.Msgs) == 0 {
		return 0, natsstore.StoreError(ctx, err)
	}
	e, err := l.stamps.directEvent(answer.Msgs[0])
	if e.Seq == 0 {
		return 0, err
	}
	return e.Seq, nil
}

// PathEnds calls each for every path that the pattern matches and that has events, with the sequence of the last. It may
// be called for a path again.
func (l *Log) PathEnds(ctx context.Context, ns string, pattern sluice.Pattern, each func(sluice.Path, uint64)) error {
	for _, filter := range streams.Filters(ns, pattern) {
		err := natsstore.UntilCaughtUp(ctx, func() error {
			return l.followEnds(ctx, ns, ends{jetstream.DeliverLastPerSubjectPolicy, []string{filter.Subject}}, func(e end) (more bool) {
				if e.path != "" && pattern.Match(e.path) {
					each(e.path, e.seq)
				}
				return e.left > 0
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// FollowPaths calls each for every event that is stored from now on, and first of all without a path, until ctx is done
// or there is trouble.
func (l *Log) FollowPaths(ctx context.Context, ns string, each func(sluice.Path, uint64)) error {
	begun := false
	return l.followEnds(ctx, ns, ends{jetstream.DeliverNewPolicy, []string{streams.EventsSubjects(ns)}}, func(e end) (more bool) {
		if !begun { // something may have been stored by then, and is told first
			begun = true
			each("", 0)
		}
		if e.path != "" {
			each(e.path, e.seq)
		}
		return true
	})
}
