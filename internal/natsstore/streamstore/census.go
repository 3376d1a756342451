package streamstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Count contains the first and last sequence of a stream and the number of its messages.
type Count struct {
	Created time.Time `json:"created"` // when the stream was created
	First   uint64    `json:"first"`
	Last    uint64    `json:"last"`
	Count   uint64    `json:"count"` // messages
}

// Records is the content of a bucket.
type Records struct {
	Created   time.Time         `json:"created"` // when its stream was created
	Last      uint64            `json:"last"`    // last sequence of the stream
	Revisions map[string]uint64 `json:"revisions"`

	Unreadable []string `json:"-"` // keys whose records exist and cannot be read
}

// Counts returns the counts of all streams of this installation, by name. Code Unavailable. The
// counts may be of different moments.
func (s *Store) Counts(ctx context.Context) (map[string]Count, error) {
	all, err := natsstore.AskedFor(ctx, natsstore.ListTimeout, func(ctx context.Context) (map[string]Count, error) {
		all := map[string]Count{}
		list := s.core.JetStream().ListStreams(ctx)
		for info := range list.Info() {
			if s.core.Names().Ours(info.Config.Name) {
				all[info.Config.Name] = Count{info.Created, info.State.FirstSeq, info.State.LastSeq, info.State.Msgs}
			}
		}
		if err := list.Err(); err != nil {
			return nil, err //nolint:wrapcheck // it is wrapped below
		}
		return all, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list streams: %w", natsstore.StoreError(ctx, err))
	}
	return all, nil
}

// Records returns the content of a bucket. It includes the keys of unreadable records as far as the
// NATS server knows them. It reads the headers of the last message of each key. The revision is the
// sequence of that message; deleted and expired keys have none.
func (s *Store) Records(ctx context.Context, bucket string) (Records, error) {
	r := Records{Revisions: map[string]uint64{}}
	name, prefix := s.core.Names().BucketStream(bucket), s.core.Names().KeySubject(bucket, "")
	stream, err := s.core.JetStream().Stream(ctx, name)
	if err != nil {
		return r, fmt.Errorf("records of %s: %w", bucket, natsstore.StoreError(ctx, err))
	}
	info, err := natsstore.AskedFor(ctx, natsstore.ListTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return stream.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	})
	if err != nil {
		return r, fmt.Errorf("records of %s: %w", bucket, natsstore.StoreError(ctx, err))
	}
	r.Created, r.Last = info.Created, info.State.LastSeq
	config := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: prefix + ">", HeadersOnly: true}
	read := map[string]bool{}
	err = s.core.Scan(ctx, name, config, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		read[msg.Subject] = true
		if !natsstore.IsMarker(msg.Header) {
			r.Revisions[msg.Subject[len(prefix):]] = meta.Sequence.Stream
		}
		return true, nil
	})
	if err != nil {
		return r, fmt.Errorf("records of %s: %w", bucket, natsstore.StoreError(ctx, err))
	}
	for subject := range info.State.Subjects {
		if !read[subject] {
			r.Unreadable = append(r.Unreadable, subject[len(prefix):])
		}
	}
	slices.Sort(r.Unreadable)
	return r, nil
}

// WatchRecords passes the records of a bucket, and then every change, to tell until ctx ends.
func (s *Store) WatchRecords(ctx context.Context, bucket string, tell func(key string, revision uint64, change natsstore.Change)) error {
	return natsstore.OpenBucket[json.RawMessage](s.core, bucket).Watch(ctx, ">", func(e natsstore.Entry[json.RawMessage]) { tell(e.Key, e.Revision, e.Change) })
}

// CompareCounts returns the damage of streams according to their counts before and now. A stream
// that was created again does not count as damaged. Only a log counts as damaged if messages in its
// middle are missing, because other streams replace messages. It makes no request. The result is
// sorted by stream, with at most one damage for each. A stream that was not counted before is new.
func (s *Store) CompareCounts(was, is map[string]Count) (all []sluice.Damage) {
	for _, name := range slices.Sorted(maps.Keys(was)) {
		before, now := was[name], is[name]
		ns, isLog := s.core.Names().LogOf(name)
		d := sluice.Damage{Stream: name, Namespace: ns}
		if !isLog {
			d.Namespace = ""
		}
		switch {
		case now.Created.IsZero():
			d.Kind, d.From, d.To = sluice.DamageMissing, before.First, before.Last
		case !now.Created.Equal(before.Created):
			continue
		case now.Last < before.Last:
			d.Kind, d.From, d.To = sluice.DamageShorter, now.Last+1, before.Last
		case isLog && now.First == before.First && now.inside() > before.inside():
			d.Kind, d.From, d.To, d.Messages = sluice.DamageFewer, before.First, before.Last, now.inside()-before.inside()
		default:
			continue
		}
		all = append(all, d)
	}
	return all
}

// inside returns the number of sequences between the first and the last that have no message.
func (c Count) inside() uint64 {
	if c.Count == 0 {
		return 0
	}
	return c.Last - c.First + 1 - min(c.Count, c.Last-c.First+1)
}

// CompareRecords returns the damage of the records of a bucket according to its content before and
// now. Records that were stored or deleted in between do not count as damaged. The last sequence
// separates the cases: a revision up to was.Last that was not there before is an older version that
// came back, as after a restore of files; a missing key was deleted normally, unless the whole
// stream ends earlier than before.
func (s *Store) CompareRecords(bucket string, was, is Records) (all []sluice.Damage) {
	damaged := func(kind sluice.DamageKind, key string, from, to uint64) {
		all = append(all, sluice.Damage{Kind: kind, Stream: s.core.Names().BucketStream(bucket), Key: key, From: from, To: to})
	}
	for _, key := range is.Unreadable {
		damaged(sluice.DamageUnreadable, key, was.Revisions[key], cmp.Or(was.Revisions[key], is.Last))
	}
	if !is.Created.Equal(was.Created) {
		return all
	}
	for key, revision := range is.Revisions {
		if revision <= was.Last && was.Revisions[key] != revision {
			damaged(sluice.DamageStale, key, revision, max(revision, cmp.Or(was.Revisions[key], was.Last)))
		}
	}
	for key, revision := range was.Revisions {
		if _, there := is.Revisions[key]; !there && is.Last < was.Last && !slices.Contains(is.Unreadable, key) {
			damaged(sluice.DamageLost, key, revision, was.Last)
		}
	}
	slices.SortFunc(all, func(a, b sluice.Damage) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key)) })
	return all
}
