package records_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

func TestMain(m *testing.M) {
	if natstest.Main() {
		return
	}
	// nats.go leaves it behind if a connection is closed while the first message is being published.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}
