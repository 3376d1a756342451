package natstest_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRestart_ClientsReconnect(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		give func(testing.TB) *natstest.Server
	}{
		{"in process", natstest.New},
		{"over the loopback address", natstest.Listening},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := test.give(t)
			opts := []nats.Option{nats.ReconnectWait(10 * time.Millisecond), nats.MaxReconnects(-1)}
			if s.ClientURL() == "" {
				opts = append(opts, nats.InProcessServer(s))
			}
			js := natstest.Dial(t, s.ClientURL(), opts...)
			_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
			require.NoError(t, err)

			s.Restart(t)
			require.Eventually(t, func() bool {
				_, err := js.Stream(t.Context(), "S")
				return err == nil
			}, time.Minute, 10*time.Millisecond)
		})
	}
}
