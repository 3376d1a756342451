package mirror_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S3-124: a mirror that a label suspends says from what to what it changed, and behind which sequence.
func TestNext_LabelStopNamesBothLabels(t *testing.T) {
	t.Parallel()
	internal := sluice.Label{Level: sluice.LevelInternal}
	p := page(6, write(6, "x", "/a"))
	p.Label = internal
	held, _ := take(t, rule(), mirror.Held{}, p)
	lowered := rule()
	lowered.Label = sluice.Label{}
	for _, c := range []struct {
		rule   mirror.Rule
		was    mirror.Place
		label  sluice.Label
		detail string
	}{
		{rule(), held.Place, sluice.Label{Level: sluice.LevelTopSecret}, "the label of low rose from INTERNAL to TOP_SECRET after sequence 6; that of high (SECRET/a) does not dominate it"},
		{rule(), held.Place, sluice.Label{Compartments: []string{"b"}}, "the label of low changed from INTERNAL to PUBLIC/b after sequence 6; that of high (SECRET/a) does not dominate it"},
		{lowered, held.Place, internal, "the label of high fell to PUBLIC after sequence 6 of low; it does not dominate that of low (INTERNAL)"},
		{rule(), mirror.Place{}, secret("b"), "the label of low is SECRET/b after sequence 0; that of high (SECRET/a) does not dominate it"},
	} {
		next := page(7, write(7, "y", "/a"))
		next.Label = c.label
		_, err := c.rule.Next(mirror.Held{Place: c.was}, next, noon)
		require.EqualError(t, err, c.detail)
	}
}

// S3-129: a mirror had all of its source when it was last at the end, and not while it catches up.
func TestNext_RemembersWhenItWasComplete(t *testing.T) {
	t.Parallel()
	held, _ := take(t, rule(), mirror.Held{}, page(2, write(2, "x", "/a")))
	p := page(4, write(4, "y", "/a"))
	p.LastSeq = 9
	c, err := rule().Next(held, p, noon.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, []time.Time{noon.Add(time.Hour), noon}, []time.Time{c.Place.SyncedAt, c.Place.CaughtUpAt})
}
