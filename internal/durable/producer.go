package durable

import (
	"maps"
	"strings"
	"time"
)

// Producer is the state of an idempotent producer: its last accepted append.
type Producer struct {
	Epoch int64     `json:"epoch"`
	Seq   int64     `json:"seq"`
	At    time.Time `json:"at"`
}

// Claim is a producer's identification of an append: the producer's id, its epoch and the number of
// the append.
type Claim struct {
	ID    string `json:"id"`
	Epoch int64  `json:"epoch"`
	Seq   int64  `json:"seq"`
}

// Verdict is the decision about a producer's append.
type Verdict int

// The verdicts.
const (
	Accepted   Verdict = iota
	Duplicate          // it is stored already
	StaleEpoch         // a later epoch of the producer has written
	LateStart          // a new epoch has to begin with sequence 0
	Gap                // an earlier one is missing
)

// maxProducers limits the remembered producers of a stream; the one with the oldest write is
// forgotten first.
const maxProducers = 1000

// maxProducerText limits the bytes of their ids, so that the record fits into a message.
const maxProducerText = 384 << 10

// judge decides about a claim, given its producer's state, nil if there is none.
func judge(known *Producer, c Claim) Verdict {
	switch {
	case known == nil && c.Seq == 0:
		return Accepted
	case known == nil:
		return Gap
	case c.Epoch < known.Epoch:
		return StaleEpoch
	case c.Epoch > known.Epoch && c.Seq != 0:
		return LateStart
	case c.Epoch > known.Epoch:
		return Accepted
	case c.Seq <= known.Seq:
		return Duplicate
	case c.Seq == known.Seq+1:
		return Accepted
	}
	return Gap
}

// producer returns a producer's state, or nil.
func (r *Record) producer(id string) *Producer {
	p, ok := r.Producers[id]
	if !ok {
		return nil
	}
	return &p
}

// accept enters a producer's append into a record with a producers list shared with another record.
func (r *Record) accept(c Claim, now time.Time) {
	next := make(map[string]Producer, len(r.Producers)+1)
	maps.Copy(next, r.Producers)
	r.Producers = next
	r.enter(c, now)
}

// enter enters a producer's append.
func (r *Record) enter(c Claim, now time.Time) {
	if r.Producers == nil {
		r.Producers = map[string]Producer{}
	}
	_, known := r.Producers[c.ID]
	r.Producers[c.ID] = Producer{Epoch: c.Epoch, Seq: c.Seq, At: now.UTC()}
	if known {
		return
	}
	text := 0
	for id := range r.Producers {
		text += idText(id)
	}
	for len(r.Producers) > maxProducers || text > maxProducerText {
		oldest := r.oldest(c.ID)
		text -= idText(oldest)
		delete(r.Producers, oldest)
	}
}

// idText returns the maximum bytes of a producer's id in a record.
func idText(id string) int {
	const escaped = 6 // of a character that JSON escapes
	if strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`<>&"\`, r) }) {
		return escaped * len(id)
	}
	return len(id)
}

// oldest returns the producer with the oldest write, except one.
func (r *Record) oldest(but string) (oldest string) {
	for id, p := range r.Producers {
		if id != but && (oldest == "" || p.At.Before(r.Producers[oldest].At)) {
			oldest = id
		}
	}
	return oldest
}
