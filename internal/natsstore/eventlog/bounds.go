package eventlog

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/streams"
)

// Bounds returns the sequence of the first event in the log and of the last one that was stored. If
// the log is empty, the first is greater than the last. Code NotFound for the namespace.
func (l *Log) Bounds(ctx context.Context, ns string) (first, last uint64, err error) {
	info, err := l.core.EventsInfo(ctx, ns)
	if err != nil {
		return 0, 0, err
	}
	return info.State.FirstSeq, info.State.LastSeq, nil
}

// Incarnation returns the ID of the log of a namespace. A log that was deleted and created again,
// or restored, has another ID. Code NotFound for the namespace.
func (l *Log) Incarnation(ctx context.Context, ns string) (string, error) {
	info, err := l.core.EventsInfo(ctx, ns)
	if err != nil {
		return "", err
	}
	return incarnationOf(info), nil
}

// Incarnations returns the ID of the log of a namespace, and the ID that it had in the backup from
// which it was restored; "" if it was not restored.
func (l *Log) Incarnations(ctx context.Context, ns string) (is, was string, err error) {
	return l.core.Incarnations(ctx, l.core.Names().EventsStream(ns))
}

func incarnationOf(info *jetstream.StreamInfo) string {
	return streams.Incarnation(info.Config.Name, info.Created, info.Config.Metadata)
}

// LastSeq returns the sequence of the last event that was stored; 0 if there is none. Code NotFound
// for the namespace.
func (l *Log) LastSeq(ctx context.Context, ns string) (uint64, error) {
	_, last, err := l.Bounds(ctx, ns)
	return last, err
}
