package streamstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/jsm.go"
	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/streams"
)

// snapshotTimeout is the time limit of each request of a snapshot. The NATS server checks the whole
// stream before it answers the first.
const snapshotTimeout = time.Minute

// StreamState is the content of a stream in numbers.
type StreamState struct {
	Messages uint64 `json:"messages"`
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
}

// Snapshot is one stream of a backup.
type Snapshot struct {
	State       StreamState     `json:"state"`
	Config      json.RawMessage `json:"config"`                // configuration and state of the stream in the format of the JetStream API
	Incarnation string          `json:"incarnation,omitempty"` // of the stream; "" in a backup of an earlier build
}

// Holds reports whether a stream that was restored from the snapshot is complete: it has all
// messages except those that have expired since.
func (s Snapshot) Holds(restored StreamState) bool {
	var stream struct {
		Config api.StreamConfig `json:"config"`
	}
	switch {
	case json.Unmarshal(s.Config, &stream) != nil || restored.LastSeq < s.State.LastSeq:
		return false
	case restored.LastSeq > s.State.LastSeq && stream.Config.SubjectDeleteMarkerTTL == 0: // otherwise a key may have expired since, and left a marker
		return false
	case s.State.Messages == 0: // there are two representations of the first sequence of an empty stream
		return restored.Messages == 0
	case stream.Config.MaxAge > 0 || stream.Config.AllowMsgTTL:
		return restored.Messages <= s.State.Messages && restored.FirstSeq >= s.State.FirstSeq
	}
	return restored == s.State
}

// StoredStreams returns the names of the existing streams and buckets of this installation, except
// the bucket of leases, which is not part of backups.
func (s *Store) StoredStreams(ctx context.Context) ([]string, error) {
	var names []string
	list := s.core.JetStream().StreamNames(ctx)
	for name := range list.Name() {
		if s.core.Names().Ours(name) && name != s.core.Names().BucketStream(streams.Leases) {
			names = append(names, name)
		}
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("list streams: %w", natsstore.StoreError(ctx, err))
	}
	return names, nil
}

// Replicas returns the IDs of the replicas that serve this store: the running ones, and killed ones
// until their leases expire.
func (s *Store) Replicas(ctx context.Context) ([]string, error) {
	leases, err := s.core.Leases(ctx, "", nil)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return leases.Replicas(ctx)
}

// SnapshotStream writes a stream with its consumers to data. The NATS server checks all messages
// first. It waits for each write to data. After an error, data has only a part of the snapshot.
func (s *Store) SnapshotStream(ctx context.Context, name string, data io.Writer) (Snapshot, error) {
	tools, err := jsm.New(s.core.Conn(), jsm.WithTimeout(snapshotTimeout), jsm.WithDomain(s.core.Options().Domain))
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot %s: %w", name, err)
	}
	stream, err := tools.LoadStream(name)
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot %s: %w", name, err)
	}
	var config bytes.Buffer
	_, err = stream.SnapshotToBuffer(ctx, unclosed{data}, unclosed{&config}, jsm.SnapshotConsumers(), jsm.SnapshotHealthCheck())
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot %s: %w", name, err)
	}
	var taken struct {
		State api.StreamState `json:"state"`
	}
	if err := json.Unmarshal(config.Bytes(), &taken); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot %s: %w", name, err)
	}
	info, err := stream.LatestInformation()
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot %s: %w", name, err)
	}
	is := streams.Incarnation(name, info.Created, info.Config.Metadata)
	return Snapshot{State: stateOf(taken.State), Config: config.Bytes(), Incarnation: is}, nil
}

// RestoreStream creates a missing stream from a snapshot, with the number of replicas of this
// store, and returns its state. A log, and the streams of mirrors and dead letters, get another
// incarnation, because sequences that were assigned after the snapshot will be assigned again; the
// former one is kept beside it. RestoreStream fails if the stream exists. Check the result with
// Snapshot.Holds.
func (s *Store) RestoreStream(ctx context.Context, name string, from Snapshot, data io.Reader) (StreamState, error) {
	tools, err := jsm.New(s.core.Conn(), jsm.WithTimeout(snapshotTimeout), jsm.WithDomain(s.core.Options().Domain))
	if err != nil {
		return StreamState{}, fmt.Errorf("restore %s: %w", name, err)
	}
	var request api.JSApiStreamRestoreRequest
	if err := json.Unmarshal(from.Config, &request); err != nil {
		return StreamState{}, fmt.Errorf("restore %s: its configuration: %w", name, err)
	}
	request.Config.Replicas, request.Config.Placement = s.core.Options().Replicas, nil
	names := s.core.Names()
	if _, isLog := names.LogOf(name); isLog || name == names.Mirror() || name == names.DeadLetters() {
		former := cmp.Or(from.Incarnation, streams.GivenIncarnation(request.Config.Metadata))
		request.Config.Metadata = streams.WithIncarnation(request.Config.Metadata, former)
	}
	state, err := tools.RestoreSnapshotFromBuffer(ctx, name, io.NopCloser(data), io.NopCloser(bytes.NewReader(from.Config)), jsm.RestoreConfiguration(request.Config))
	if err != nil {
		return StreamState{}, fmt.Errorf("restore %s: %w", name, err)
	}
	return stateOf(*state), nil
}

func stateOf(state api.StreamState) StreamState {
	return StreamState{Messages: state.Msgs, FirstSeq: state.FirstSeq, LastSeq: state.LastSeq}
}

// unclosed is a writer that ignores Close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
