package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// A subscription whose every attempt fails is told of, and then disabled.
func TestFailing_IsJudged(t *testing.T) {
	t.Parallel()
	const after = 100 * time.Minute
	begin := time.Unix(1_800_000_000, 0)
	failed := &sluice.Attempt{Outcome: sluice.Failed, Duration: sluice.Duration(time.Minute)}
	since := func(percent int) Failing { return Failing{begin, percent} }
	for _, c := range []struct {
		name string
		is   Failing
		a    *sluice.Attempt
		at   time.Duration // after begin
		want Failing
		how  Judgement
	}{
		{"no attempt", since(50), nil, after * 2, since(50), Tolerated},
		{"the first failure", Failing{}, failed, time.Minute, since(0), Tolerated},
		{"at half of the time", since(0), failed, after / 2, since(0), Tolerated},
		{"after half of the time", since(0), failed, after/2 + 1, since(50), Tolerated},
		{"several steps at once", since(0), failed, after/100*90 + 1, since(90), Tolerated},
		{"a step that was told", since(70), failed, after/100*70 + 1, since(70), Tolerated},
		{"all of the time", since(90), failed, after, since(90), Tolerated},
		{"more than that", since(90), failed, after + 1, since(100), TooLong},
		{"success", since(90), &sluice.Attempt{Outcome: sluice.Delivered}, after * 2, Failing{}, Tolerated},
		{"gone", since(90), &sluice.Attempt{Outcome: sluice.Gone, Verdict: sluice.Verdict{Cancel: true}}, after * 2, Failing{}, EndpointGone},
	} {
		is, how := c.is.Judge(c.a, after, begin.Add(c.at))
		require.Equal(t, c.want, is, c.name)
		require.Equal(t, c.how, how, c.name)
	}
}
