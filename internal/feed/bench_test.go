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

// An event to many readers, each of whom gets it rendered: an operation is one frame. The bar is 100,000 frames
// a second on two cores.
func BenchmarkFanOut(b *testing.B) {
	const readers, piece = 200, 64
	for _, coalesce := range []feed.Coalesce{{}, {Labels: []string{"n"}, Window: feed.MinWindow}} {
		b.Run("coalescing "+strconv.FormatBool(coalesce.Labels != nil), func(b *testing.B) {
			log := make(tap)
			e := running(b, log, open{}, feed.Options{})
			ctx, cancel := context.WithCancel(b.Context())
			var all, arrived sync.WaitGroup
			for range readers {
				f, err := opened(ctx, e, feed.Wish{Coalesce: coalesce})
				if err != nil {
					b.Fatal(err)
				}
				all.Go(func() {
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
				})
			}
			seq, data := uint64(0), `{"text":"`+strings.Repeat("x", 300)+`","n":`
			b.ReportAllocs()
			for sent := piece * readers; b.Loop(); sent++ {
				if sent < piece*readers { // an operation is a frame, and a piece is published at once
					continue
				}
				sent = 0
				arrived.Wait()
				arrived.Add(piece * readers)
				for range piece {
					seq++
					log <- sluice.Event{Namespace: ns, Seq: seq, ID: "id", Type: "t", Path: "/a", Data: []byte(data + strconv.FormatUint(seq, 10) + "}")}
				}
			}
			arrived.Wait()
			cancel()
			all.Wait()
		})
	}
}
