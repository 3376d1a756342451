package integrity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, F5: a subscription missed what lies behind what it had got, of what it wants.
func TestMissedBy_IsTheUndeliveredPart(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_000_000, 0).UTC()
	damage := sluice.Damage{Kind: sluice.DamageUnreadable, Namespace: "ns", From: 10, To: 20}
	for name, c := range map[string]struct {
		change func(sub *sluice.Subscription, d *sluice.Damage)
		had    deliverystore.Had
		from   uint64 // 0: nothing
	}{
		"all":                            {nil, deliverystore.Had{Since: began, Seq: 5}, 10},
		"the rest":                       {nil, deliverystore.Had{Since: began, Seq: 15}, 16},
		"the last":                       {nil, deliverystore.Had{Since: began, Seq: 19}, 20},
		"nothing":                        {nil, deliverystore.Had{Since: began, Seq: 20}, 0},
		"had is an earlier one's":        {nil, deliverystore.Had{Since: began.Add(-1), Seq: 20}, 10},
		"was not looked at yet":          {nil, deliverystore.Had{}, 10},
		"began behind it":                {func(s *sluice.Subscription, _ *sluice.Damage) { s.From.Seq = 21 }, deliverystore.Had{}, 0},
		"began in it":                    {func(s *sluice.Subscription, _ *sluice.Damage) { s.From.Seq = 12 }, deliverystore.Had{}, 12},
		"another namespace":              {func(s *sluice.Subscription, _ *sluice.Damage) { s.Namespace = "b" }, deliverystore.Had{}, 0},
		"wakes":                          {func(s *sluice.Subscription, _ *sluice.Damage) { s.Mode = sluice.Wake }, deliverystore.Had{}, 0},
		"cancelled":                      {func(s *sluice.Subscription, _ *sluice.Damage) { s.State = sluice.Cancelled }, deliverystore.Had{}, 0},
		"paused":                         {func(s *sluice.Subscription, _ *sluice.Damage) { s.State = sluice.Paused }, deliverystore.Had{}, 10},
		"a path that it wants":           {func(_ *sluice.Subscription, d *sluice.Damage) { d.Path = "/a/1" }, deliverystore.Had{}, 10},
		"a path that it does not want":   {func(_ *sluice.Subscription, d *sluice.Damage) { d.Path = "/b/1" }, deliverystore.Had{}, 0},
		"the beginning of a log is lost": {func(_ *sluice.Subscription, d *sluice.Damage) { d.From = 0 }, deliverystore.Had{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sub, d := &sluice.Subscription{ID: "s", Namespace: "ns", Mode: sluice.Push, Lifecycle: sluice.Lifecycle{State: sluice.Active, CreatedAt: began}, Pattern: "/a/*"}, damage
			if c.change != nil {
				c.change(sub, &d)
			}
			from, to, ok := MissedBy(sub, d, c.had)
			require.Equal(t, c.from != 0, ok)
			if ok {
				require.Equal(t, [2]uint64{c.from, 20}, [2]uint64{from, to})
			}
		})
	}
}

// Issue 13, F5: a log with very many gaps is one dead letter a subscription.
func TestMerged_BoundsLetters(t *testing.T) {
	t.Parallel()
	had := map[string]deliverystore.Had{"s": {Seq: 3}}
	m := &Memory{missed: missed{Had: had}}
	var owed []Owed
	for i := range uint64(gapsMost + 1) {
		owed = append(owed, Owed{Damage: sluice.Damage{Namespace: "ns", From: 10 * (i + 1), To: 10*(i+1) + 1, Path: "/a"}})
	}
	few := Owed{Damage: sluice.Damage{Namespace: "few", From: 5, To: 6, Path: "/a"}, Had: map[string]deliverystore.Had{}}
	merged := m.merged(append([]Owed{few}, owed...))
	require.Equal(t, []Owed{few, {Damage: sluice.Damage{Namespace: "ns", From: 10, To: 10*(gapsMost+1) + 1}, Had: had}}, merged)
	require.Len(t, m.merged(owed[1:]), gapsMost)
}
