//go:build unix

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// led names what deliveries need and one server of a cluster leads: a stream, or a consumer of it.
type led struct{ stream, consumer string }

func (l led) String() string {
	if l.consumer != "" {
		return "the consumer of " + l.stream
	}
	return l.stream
}

// whatIsLed returns what the fault suite pauses the leaders of.
func whatIsLed(t *testing.T) []led {
	t.Helper()
	return []led{{jsNames(t).EventsStream("default"), ""}, {jsNames(t).Attempts(), ""}, {jsNames(t).BucketStream("leases"), ""}}
}

// leader returns the server that leads it.
func (l led) leader(t *testing.T, js jetstream.JetStream) (name string) {
	t.Helper()
	eventually(t, func() bool {
		stream, err := js.Stream(t.Context(), l.stream)
		if err != nil || stream.CachedInfo().Cluster == nil {
			return false
		}
		name = stream.CachedInfo().Cluster.Leader
		if l.consumer != "" {
			c, err := stream.Consumer(t.Context(), l.consumer)
			if err != nil || c.CachedInfo().Cluster == nil {
				return false
			}
			name = c.CachedInfo().Cluster.Leader
		}
		return name != ""
	}, "there is a leader")
	return name
}

// isWhole reports whether all replicas of a stream have all of it.
func isWhole(t *testing.T, js jetstream.JetStream, name string) bool {
	t.Helper()
	stream, err := js.Stream(t.Context(), name)
	if err != nil || stream.CachedInfo().Cluster == nil {
		return false
	}
	for _, replica := range stream.CachedInfo().Cluster.Replicas {
		if !replica.Current || replica.Offline {
			return false
		}
	}
	return len(stream.CachedInfo().Cluster.Replicas) == 2
}

// Fault F8: a server of a NATS cluster that leads something that deliveries need stops without a word, and its connections stay
// open. Deliveries go on without it. The short form has the leader of the log stop, once; the long one each of them three times.
func TestLeader_PausedOneStopsNoDelivery(t *testing.T) { // S4-17, S4-22, S0-41
	if testing.Short() {
		t.Skip("needs a NATS cluster of three processes")
	}
	t.Parallel()
	all, times := whatIsLed(t), 3
	if !faulttest.Long() {
		all, times = all[:1], 1
	}
	pauseLeaders(t, all, times, config.Default().Webhooks.SharedAbove)
}

// The same is true of a subscription with a consumer of its own, and of the leader of that.
func TestLeader_PausedOneStopsNoConsumer(t *testing.T) { // S4-17, S4-22, S0-41
	if !faulttest.Long() {
		t.Skip("takes minutes")
	}
	t.Parallel()
	pauseLeaders(t, append(whatIsLed(t), led{jsNames(t).EventsStream("default"), "s"}), 3, -1)
}

// pauseLeaders pauses the leader of each, several times, while a subscription gets events, which shares a reader of the
// log above so many subscriptions.
func pauseLeaders(t *testing.T, all []led, times, above int) {
	t.Helper()
	cluster, taker := natstest.NewProcesses(t), newTaker(t)
	s := startLogging(t, t.TempDir(), func(c *config.Config) {
		c.NATS.URL, c.NATS.Replicas, c.Webhooks.SharedAbove = cluster.URL(), 3, above
	}, t.Output())
	feed := newFeed(t, cluster.URL(), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2))
	subscribe(t, s.api, wish(taker.url, `"id":"s"`, quick))
	feed.publish(t, 30)
	within(t, leaderPatience, func() bool { return taker.Taken() == 30 }, "the first arrive")

	watch := faulttest.Begin(t, "nats-leader-paused")
	var published, delivered time.Duration
	for range times {
		for _, what := range all {
			resume := cluster.Pause(t, what.leader(t, feed.js))
			watch.Recovered()
			began, before := time.Now(), taker.Taken()
			feed.publish(t, 1)
			back := time.Since(began)
			within(t, leaderPatience, func() bool { return taker.Taken() > before }, "deliveries go on")
			took := watch.Resumed()
			feed.publish(t, 10)
			within(t, leaderPatience, func() bool { return taker.Taken() == feed.n }, "all arrive")
			t.Logf("%s: published after %.1f s, delivered after %.1f s, all after %.1f s", what, back.Seconds(), took.Seconds(), time.Since(began).Seconds())
			published, delivered = max(published, back), max(delivered, took)
			resume()
			feed.publish(t, 10)
			within(t, leaderPatience, func() bool { return taker.Taken() == feed.n }, "all arrive")
			for _, each := range all {
				within(t, leaderPatience, func() bool { return isWhole(t, feed.js, each.stream) }, "the server is back")
			}
		}
	}
	watch.End(taker.Compare(feed.sent), fmt.Sprintf("%d pauses; publishing was back after %.1f s at most, deliveries after %.1f s", times*len(all), published.Seconds(), delivered.Seconds()))
}

// leaderPatience is how long deliveries are waited for: a cluster may need several elections, on a machine that is busy.
const leaderPatience = 3 * time.Minute
