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

// Claim identifies an append of a producer: the producer's id, its epoch and the number of the
// append.
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
	Duplicate          // the append is stored already
	StaleEpoch         // the producer has written in a later epoch
	LateStart          // a new epoch must begin with sequence 0
	Gap                // an earlier append is missing
)

// maxProducers limits the producers in a stream's record. The producer with the oldest write is
// dropped first.
const maxProducers = 1000

// maxProducerText limits the bytes of the producers' ids, so that the record fits into a message.
const maxProducerText = 384 << 10

// judge decides about a claim, given the state of its producer; nil: the producer is unknown.
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

// accept enters a producer's append into a record that shares its map of producers with another
// record.
func (r *Record) accept(c Claim, now time.Time) {
	next := make(map[string]Producer, len(r.Producers)+1)
	maps.Copy(next, r.Producers)
	r.Producers = next
	r.enter(c, now)
}

// enter enters a producer's append into the record, and drops the oldest producers beyond the
// limits.
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

// idText returns how many bytes a producer's id takes in a record at most.
func idText(id string) int {
	const escaped = 6 // bytes of a byte that JSON escapes
	if strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`<>&"\`, r) }) {
		return escaped * len(id)
	}
	return len(id)
}

// oldest returns the id of the producer with the oldest write, except but.
func (r *Record) oldest(but string) (oldest string) {
	for id, p := range r.Producers {
		if id != but && (oldest == "" || p.At.Before(r.Producers[oldest].At)) {
			oldest = id
		}
	}
	return oldest
}
