package eventlog

import (
	"context"
	"time"
)

// Bounds returns the sequences of the first event that is kept and of the last one that was
// stored; the first is the greater if nothing is kept. Code NotFound for the namespace.
func (l *Log) Bounds(ctx context.Context, ns string) (first, last uint64, err error) {
	info, err := l.core.EventsInfo(ctx, ns)
	if err != nil {
		return 0, 0, err
	}
	return info.State.FirstSeq, info.State.LastSeq, nil
}

// LogMade returns when a namespace's log was made: one that was deleted and made again has another time. Code NotFound for the
// namespace.
func (l *Log) LogMade(ctx context.Context, ns string) (time.Time, error) {
	info, err := l.core.EventsInfo(ctx, ns)
	if err != nil {
		return time.Time{}, err
	}
	return info.Created, nil
}

// LastSeq returns the sequence of the last event that was stored, 0 if none was. Code NotFound
// for the namespace.
func (l *Log) LastSeq(ctx context.Context, ns string) (uint64, error) {
	_, last, err := l.Bounds(ctx, ns)
	return last, err
}
