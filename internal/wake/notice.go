package wake

import (
	"encoding/json"
	"slices"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Notice is the POST body that wakes a consumer (S1-46…53). It carries no event data (register
// C10).
type Notice struct {
	ConsumerID  string            `json:"consumer_id"`
	Epoch       uint64            `json:"epoch"`
	WakeID      string            `json:"wake_id"`
	Primary     sluice.Path       `json:"primary_stream"`
	Streams     []model.WakeAcked `json:"streams"`
	TriggeredBy []sluice.Path     `json:"triggered_by"`
	Callback    string            `json:"callback"`
	Token       string            `json:"token"`
}

// offsets returns the acknowledged positions of the consumer's visible streams.
func (c *Consumer) offsets(tails Tails, format func(uint64) string) []model.WakeAcked {
	all := make([]model.WakeAcked, 0, len(c.Streams))
	for _, p := range c.Streams {
		if _, shown := tails[p.Path]; shown {
			all = append(all, model.WakeAcked{Path: p.Path, Offset: offset(p.Acked, format)})
		}
	}
	return all
}

func offset(acked uint64, format func(uint64) string) string {
	if acked == 0 {
		return before
	}
	return format(acked)
}

// notice returns the body of a notice.
func (c *Consumer) notice(id, callback, token string, tails Tails, format func(uint64) string) ([]byte, error) {
	pending := c.Pending(tails)
	if pending == nil {
		pending = []sluice.Path{}
	}
	return json.Marshal(Notice{
		ConsumerID: id, Epoch: c.Epoch, WakeID: c.WakeID, Primary: c.Path,
		Streams: c.offsets(tails, format), TriggeredBy: slices.Clip(pending), Callback: callback, Token: token,
	})
}

// saysDone reports whether a response body is S1's {"done": true} (S1-55).
func saysDone(body []byte) bool {
	var answer struct {
		Done bool `json:"done"`
	}
	return json.Unmarshal(body, &answer) == nil && answer.Done
}
