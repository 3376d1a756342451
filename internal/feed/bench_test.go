package feed_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// tap is a log that has what is put into it.
type tap chan sluice.Event

func (tap) Ends(context.Context, string) (first, last uint64, err error) { return 1, 0, nil }

func (tap) Incarnation(context.Context, string) (string, error) { return "", nil }

func (tap) Place(context.Context, string, string) (uint64, error) { return 0, nil }

func (tap) Page(context.Context, string, sluice.Pattern, uint64, uint64) ([]sluice.Event, uint64, error) {
	return nil, 0, sluice.Errorf(sluice.WindowExceeded, "there is no history")
}

func (c tap) Tail(ctx context.Context, _ string, _ uint64, each func(sluice.Event) error) error {
	for {
		select {
		case ev := <-c:
			if err := each(ev); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// An event to many readers, each of whom gets it rendered: an operation is 64 events to 200 readers, 12,800 frames. The bar is
// 100,000 frames a second on two cores.
func BenchmarkFanOut(b *testing.B) {
	const readers, piece = 200, 64
	log := make(tap)
	e := running(b, log, open{}, feed.Options{})
	ctx, cancel := context.WithCancel(b.Context())
	var all, arrived sync.WaitGroup
	for range readers {
		f, err := opened(ctx, e, feed.Wish{})
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() { drink(ctx, f, &arrived) })
	}
	seq, data := uint64(0), `{"text":"`+strings.Repeat("x", 300)+`","n":`
	b.ReportAllocs()
	for b.Loop() {
		arrived.Add(piece * readers)
		for range piece {
			seq++
			log <- sluice.Event{Namespace: ns, Seq: seq, ID: "id", Type: "t", Path: "/a", Data: []byte(data + strconv.FormatUint(seq, 10) + "}")}
		}
		arrived.Wait()
	}
	cancel()
	all.Wait()
}

// drink renders every frame of a feed.
func drink(ctx context.Context, f *feed.Feed, arrived *sync.WaitGroup) {
	defer f.Close()
	var text []byte
	_ = f.Run(ctx, func(frames []feed.Frame) error {
		for _, frame := range frames {
			if frame.Idle {
				continue
			}
			text = f.AppendFrame(text[:0], frame)
			arrived.Done()
		}
		return nil
	}, func() {})
}
