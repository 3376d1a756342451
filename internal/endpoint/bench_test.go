package endpoint_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func big() *sluice.Event {
	ev := rich()
	ev.Data = []byte(`{"text":"` + strings.Repeat("x", 1000) + `"}`)
	return ev
}

func BenchmarkCloudEvent(b *testing.B) {
	ev := big()
	b.ReportAllocs()
	for b.Loop() {
		ev.AppendJSON(nil)
	}
}

// One attempt over loopback, the endpoint's own work included.
func BenchmarkSend(b *testing.B) {
	for _, envelope := range []sluice.Envelope{sluice.EnvelopeCloudEvents, sluice.EnvelopeBinary, sluice.EnvelopeFact, sluice.EnvelopeAttempt, sluice.EnvelopeRaw} {
		b.Run(string(envelope), func(b *testing.B) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
			b.Cleanup(server.Close)
			s, sub, ev := local(b), subscription(server.URL), big()
			sub.Policy.Envelope = envelope
			b.ReportAllocs()
			for b.Loop() {
				if a := s.Send(b.Context(), sub, ev, 1); a.Outcome != sluice.Delivered {
					b.Fatal(a.Error)
				}
			}
		})
	}
}

func BenchmarkSendInParallel(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	b.Cleanup(server.Close)
	s, sub, ev := local(b), subscription(server.URL), big()
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if a := s.Send(b.Context(), sub, ev, 1); a.Outcome != sluice.Delivered {
				b.Error(a.Error)
			}
		}
	})
}
