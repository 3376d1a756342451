package streamstore

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// renameAgain is the interval at which the copy of a stream is compared with the stream.
const renameAgain = 20 * time.Millisecond

// RenameStream copies a stream with another prefix, or none, to a stream with the prefix of this
// store, and deletes the original. Messages keep their sequences and times, and consumers continue
// at their positions. NATS cannot rename a stream: the copy is created as a mirror with other
// subjects, and then changed to a normal stream. Nothing else may use the streams during the call.
// The original is deleted last, so an interruption loses nothing.
func (s *Store) RenameStream(ctx context.Context, from streams.Names, name string) (StreamState, error) {
	state, err := s.rename(ctx, from, name)
	if err != nil {
		return StreamState{}, fmt.Errorf("rename %s: %w", name, natsstore.StoreError(ctx, err))
	}
	return state, nil
}

func (s *Store) rename(ctx context.Context, from streams.Names, name string) (StreamState, error) {
	js := s.core.JetStream()
	old, err := js.Stream(ctx, name)
	if err != nil {
		return StreamState{}, err
	}
	was := old.CachedInfo()
	config := was.Config
	var ok bool
	if config.Name, ok = s.core.Names().Renamed(from, name); !ok {
		return StreamState{}, sluice.Errorf(sluice.InvalidRequest, "the stream does not have the prefix %q", from.Prefix())
	}
	config.Subjects, config.RePublish = nil, nil // the server sets RePublish again if it is wanted
	mirror := &jetstream.StreamSource{Name: name}
	for _, subject := range was.Config.Subjects {
		to := s.core.Names().RenamedSubject(from, subject)
		config.Subjects = append(config.Subjects, to)
		mirror.SubjectTransforms = append(mirror.SubjectTransforms, jetstream.SubjectTransformConfig{Source: subject, Destination: to})
	}
	copied, err := js.CreateStream(ctx, copyConfig(config, mirror))
	if err != nil {
		return StreamState{}, err
	}
	if err := wholeCopy(ctx, old, copied); err != nil {
		return StreamState{}, err
	}
	if _, err := js.UpdateStream(ctx, config); err != nil {
		return StreamState{}, err
	}
	if err := s.MoveOn(ctx, config.Name, was.State.LastSeq); err != nil {
		return StreamState{}, err
	}
	if err := s.copyConsumers(ctx, from, old, copied); err != nil {
		return StreamState{}, err
	}
	info, err := copied.Info(ctx)
	if err != nil {
		return StreamState{}, err
	}
	return StreamState{Messages: info.State.Msgs, FirstSeq: info.State.FirstSeq, LastSeq: info.State.LastSeq}, js.DeleteStream(ctx, name)
}

// copyConfig returns the configuration of the copy while it is a mirror, without settings that a
// mirror must not have.
func copyConfig(config jetstream.StreamConfig, mirror *jetstream.StreamSource) jetstream.StreamConfig {
	config.Mirror, config.Subjects = mirror, nil
	config.FirstSeq, config.AllowAtomicPublish, config.SubjectDeleteMarkerTTL = 0, false, 0
	config.DenyDelete, config.DenyPurge = false, false
	config.MaxBytes, config.Discard = -1, jetstream.DiscardOld
	return config
}

// wholeCopy waits until the copy has all messages of the original. Only ctx limits the wait.
func wholeCopy(ctx context.Context, from, to jetstream.Stream) error {
	for {
		has, err := to.Info(ctx)
		if err != nil {
			return err
		}
		wants, err := from.Info(ctx) // messages may expire in between
		if err != nil {
			return err
		}
		if has.State.Msgs == wants.State.Msgs && (wants.State.Msgs == 0 || has.State.FirstSeq == wants.State.FirstSeq) {
			return nil
		}
		select {
		case <-time.After(renameAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// copyConsumers creates the durable consumers of a stream for its copy, with renamed filters. They
// start after the acknowledged messages.
func (s *Store) copyConsumers(ctx context.Context, from streams.Names, old, copied jetstream.Stream) error {
	list := old.ListConsumers(ctx)
	for info := range list.Info() {
		if info.Config.Durable == "" {
			continue
		}
		config := info.Config
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartSequencePolicy, nil
		config.OptStartSeq = info.AckFloor.Stream + 1
		if info.NumAckPending == 0 {
			config.OptStartSeq = max(info.AckFloor.Stream, info.Delivered.Stream) + 1
		}
		config.FilterSubject = s.core.Names().RenamedSubject(from, config.FilterSubject)
		if _, err := copied.CreateConsumer(ctx, config); err != nil {
			return fmt.Errorf("consumer %s: %w", info.Name, err)
		}
	}
	return list.Err()
}
