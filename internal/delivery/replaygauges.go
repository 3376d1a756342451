package delivery

import (
	"slices"
	"strings"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// ReplayGauges returns the state of the replays that this process runs: one entry for each
// subscription that has some, with the ratio of the replay that is least far.
func (e *Engine) ReplayGauges() []model.ReplayGauges {
	of := map[string]model.ReplayGauges{}
	for _, s := range e.replays.serving.All() {
		rep := s.replay.now()
		if rep.Acts() {
			continue
		}
		g, more := of[rep.Subscription]
		if ratio := replayRatio(&rep); !more || ratio < g.Ratio {
			g.Ratio = ratio
		}
		g.Namespace, g.Subscription, g.Running = rep.Namespace, rep.Subscription, g.Running+1
		of[rep.Subscription] = g
	}
	all := make([]model.ReplayGauges, 0, len(of))
	for _, g := range of {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b model.ReplayGauges) int { return strings.Compare(a.Subscription, b.Subscription) })
	return all
}

// now returns the replay with its present progress.
func (r *replaying) now() sluice.Replay {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := r.replay
	rep.Next, rep.Sent, rep.Dead = max(rep.Next, r.next), r.sent, r.dead
	return rep
}

// replayRatio returns how much of a replay is done, from 0 to 1: the part of the sequences of its
// range or, because letters are in no order, the part of its dead letters.
func replayRatio(rep *sluice.Replay) float64 {
	done, of := rep.Next-min(rep.From, rep.Next), rep.To-min(rep.From, rep.To)+1
	if rep.Kind == sluice.ReplayDeadLetters {
		done, of = rep.Sent+rep.Dead, max(rep.Total, 1)
	}
	return min(float64(done)/float64(of), 1)
}
